// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>

#include "absl/strings/str_join.h"
#include "launcher/scoped.h"
#include "launcher/text.h"
#include "wire/rendezvous.h"
#include "writer/file_ops.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

struct Subcommand {
  std::string_view name;
  uint32_t bit;
};
constexpr Subcommand kSubcommands[] = {{"run", kForRun},         {"convert", kForConvert},
                                       {"recover", kForRecover}, {"capture", kForCapture},
                                       {"status", kForStatus},   {"merge", kForMerge},
                                       {"check", kForCheck},     {"config", kForConfig},
                                       {"doctor", kForDoctor},   {"help", 0}};

// Variables that are no options.
constexpr std::string_view kInternalVariables[] = {kSessionVariable, "TBPROF_DISABLE", "TBPROF_LIBRARY_DIR",
                                                   "TBPROF_LOG", "TBPROF_PYTHON"};
constexpr std::string_view kInternalPrefix = "TBPROF_TEST_";

constexpr size_t kMaxConfigBytes = 1 << 20;

// Whatever was given is quoted, and goes to a terminal.
absl::Status Usage(std::string_view text) { return InvalidArgument(PrintableUtf8(text)); }

std::string DidYouMean(std::string_view word, const std::vector<std::string>& names, std::string_view prefix = "") {
  const std::string near = NearestName(word, names);
  return near.empty() ? "" : StrCat("; did you mean ", prefix, near, "?");
}

const Subcommand* FindSubcommand(std::string_view name) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.name == name) return &subcommand;
  }
  return nullptr;
}

std::vector<std::string> RowNames(uint32_t commands) {
  std::vector<std::string> names;
  for (const OptionRow& row : OptionRows()) {
    if ((row.commands & commands) != 0) names.emplace_back(row.name);
  }
  return names;
}

const OptionRow* FindRow(std::string_view name) {
  for (const OptionRow& row : OptionRows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool IsInternal(std::string_view variable) {
  return variable.starts_with(kInternalPrefix) ||
         std::find(std::begin(kInternalVariables), std::end(kInternalVariables), variable) !=
             std::end(kInternalVariables);
}

// Kubernetes describes a service named `tbprof` to every container of the namespace by such variables.
bool IsServiceLink(std::string_view variable, std::string_view value) {
  if (variable == EnvironmentName("port-users")) return false;
  return variable.starts_with("TBPROF_SERVICE_") || variable.starts_with("TBPROF_PORT_") ||
         (variable == "TBPROF_PORT" && value.find("://") != std::string_view::npos);
}

absl::Status CheckEnvironment(const Environment& environment) {
  std::vector<std::string> names;
  for (const OptionRow& row : OptionRows()) names.push_back(EnvironmentName(row.name));
  for (const std::string& entry : environment) {
    if (!entry.starts_with("TBPROF_")) continue;
    const std::string name = entry.substr(0, entry.find('='));
    if (IsServiceLink(name, std::string_view(entry).substr(std::min(entry.size(), name.size() + 1)))) continue;
    if (IsInternal(name) || std::find(names.begin(), names.end(), name) != names.end()) continue;
    return Usage(StrCat("the environment sets ", name, ", which is no option of tbprof", DidYouMean(name, names)));
  }
  return absl::OkStatus();
}

// One place that options come from, nearest first.
struct Layer {
  Layer() = default;
  explicit Layer(std::string from) : source(std::move(from)) {}
  std::string source;
  std::map<std::string, std::string, std::less<>> values;   // by option name
  std::map<std::string, std::string, std::less<>> sources;  // where finer than `source`
};

// Empty optional: there is no such file. CLI11's reader cuts quoted text at `#`, so comments are taken out here.
absl::StatusOr<std::optional<std::string>> ReadConfigText(const std::string& path) {
  ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0) {
    return Usage(StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) > kMaxConfigBytes) {
    return Usage(StrCat("cannot read ", path, ": not a file of at most 1 MiB"));
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  if (const absl::Status done = ReadAll(file.get(), &text, path); !done.ok()) return Usage(StrCat(done.message()));
  std::string plain;
  char quote = '\0';
  bool comment = false;
  for (char c : text) {
    if (c == '\n') {
      quote = '\0';
      comment = false;
    } else if (quote == '\0' && c == '#') {
      comment = true;
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    }
    if (!comment) plain.push_back(c);
  }
  return plain;
}

absl::Status ReadConfig(const std::string& path, const Subcommand& subcommand, bool required,
                        std::vector<Layer>* layers) {
  absl::StatusOr<std::optional<std::string>> text = ReadConfigText(path);
  if (!text.ok()) return text.status();
  if (!text->has_value()) {
    return required ? Usage(StrCat("no configuration file ", path)) : absl::OkStatus();
  }
  std::vector<std::string> names = RowNames(~0u);
  std::erase(names, "config");
  std::vector<std::string> sections;
  for (const Subcommand& known : kSubcommands) {
    if (known.bit != 0) sections.emplace_back(known.name);
  }

  Layer general(path);
  Layer special(path);
  try {
    CLI::ConfigTOML reader;
    reader.comment('\x01');
    std::istringstream input(**text);
    for (const CLI::ConfigItem& item : reader.from_config(input)) {
      const std::string section = absl::StrJoin(item.parents, ".");
      if (!section.empty() && std::find(sections.begin(), sections.end(), section) == sections.end()) {
        return Usage(StrCat(path, ": unknown section [", section, "]", DidYouMean(section, sections)));
      }
      if (item.name == "++" || item.name == "--") continue;  // CLI11's marks for the borders of sections
      const std::string name = Replace(item.name, '_', '-');
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        return Usage(StrCat(path, ": unknown key ", item.name, DidYouMean(name, names)));
      }
      if (!section.empty() && section != subcommand.name) continue;
      (section.empty() ? general : special).values[name] = absl::StrJoin(item.inputs, ",");
    }
  } catch (const std::exception& error) {  // CLI11's errors and std::out_of_range on garbage
    return Usage(StrCat(path, ": ", error.what()));
  }
  layers->push_back(std::move(special));
  layers->push_back(std::move(general));
  return absl::OkStatus();
}

bool TakesCommand(const Subcommand& subcommand) { return (subcommand.bit & (kForRun | kForDoctor)) != 0; }

// The words of one subcommand, cut where its options end.
struct Cut {
  std::vector<std::string> options;  // as CLI11 takes them: `--name`, `value`
  std::vector<std::string> rest;     // the command, or the operands
};

// CLI11 would start the command at an option it does not know, or look at words behind the command; so the cut is made
// before, with CLI11's own table.
absl::StatusOr<Cut> CutWords(const CLI::App& app, const Subcommand& subcommand, const std::vector<std::string>& args) {
  Cut cut;
  for (size_t i = 1; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--") {
      cut.rest.insert(cut.rest.end(), args.begin() + i + 1, args.end());
      return cut;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (TakesCommand(subcommand)) {
        cut.rest.assign(args.begin() + i, args.end());
        return cut;
      }
      cut.rest.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = nullptr;
    if (name.size() > 1) option = app.get_option_no_throw(name);
    if (option == nullptr) {
      const OptionRow* row = name.starts_with("--") ? FindRow(name.substr(2)) : nullptr;
      if (row != nullptr) {
        return Usage(StrCat(name, " is no option of tbprof ", subcommand.name));
      }
      const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
      const std::string hint = DidYouMean(bare, RowNames(subcommand.bit), "--");
      return Usage(StrCat("unknown option ", name,
                          hint.empty() ? StrCat("; options: tbprof ", subcommand.name, " --help") : hint));
    }
    const bool is_switch = option->get_items_expected_max() == 0;
    if (equals != std::string::npos && equals + 1 == word.size()) {
      return Usage(StrCat(name, "= lacks a value"));
    }
    if (is_switch) {
      cut.options.push_back(word);
      continue;
    }
    if (equals == std::string::npos && i + 1 == args.size()) return Usage(StrCat(name, " lacks a value"));
    cut.options.push_back(name);
    cut.options.push_back(equals == std::string::npos ? args[++i] : word.substr(equals + 1));
    if (cut.options.back().empty()) return Usage(StrCat(name, " lacks a value"));
  }
  return cut;
}

void Declare(CLI::App& app, const Subcommand& subcommand) {
  app.set_help_flag();
  app.add_flag("-h,--help");
  for (const OptionRow& row : OptionRows()) {
    if ((row.commands & subcommand.bit) == 0) continue;
    const std::string flag = StrCat("--", row.name);
    CLI::Option* option =
        row.value_name.empty() ? app.add_flag(flag) : app.add_option(flag)->expected(1)->allow_extra_args(false);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  if (subcommand.bit == kForConfig) app.add_flag("--explain");
}

absl::StatusOr<Layer> ParseFlags(CLI::App& app, std::vector<std::string> words, Options* options) {
  Layer layer;
  std::reverse(words.begin(), words.end());  // the order CLI11 wants
  try {
    app.parse(words);
  } catch (const CLI::Error& error) {
    return Usage(error.what());
  }
  options->help = app.count("--help") > 0;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_single_name();
    if (name == "explain") options->explain = true;
    if (FindRow(name) == nullptr) continue;
    layer.values[name] = option->results().back();
    layer.sources[name] = StrCat("--", name);
  }
  return layer;
}

Layer EnvironmentLayer(const Environment& environment) {
  Layer layer;
  for (const OptionRow& row : OptionRows()) {
    const std::string variable = EnvironmentName(row.name);
    const std::optional<std::string_view> value = Lookup(environment, variable);
    if (!value.has_value() || value->empty()) continue;  // set to nothing counts as not set
    if (IsServiceLink(variable, *value)) continue;
    layer.values[std::string(row.name)] = std::string(*value);
    layer.sources[std::string(row.name)] = variable;
  }
  return layer;
}

absl::Status AddConfigLayers(const Subcommand& subcommand, const Environment& environment,
                             const std::string& working_directory, std::vector<Layer>* layers) {
  for (const Layer& layer : std::vector<Layer>(*layers)) {
    const auto named = layer.values.find("config");
    if (named == layer.values.end()) continue;
    const std::string path = named->second[0] == '/' ? named->second : StrCat(working_directory, "/", named->second);
    if (absl::Status status = ReadConfig(path, subcommand, true, layers); !status.ok()) return status;
    break;
  }
  std::vector<std::string> paths = {StrCat(working_directory, "/tbprof.toml")};
  const std::string_view home = Lookup(environment, "HOME").value_or("");
  const std::string_view xdg = Lookup(environment, "XDG_CONFIG_HOME").value_or("");
  if (xdg.starts_with("/")) {
    paths.push_back(StrCat(xdg, "/tbprof/config.toml"));
  } else if (home.starts_with("/")) {
    paths.push_back(StrCat(home, "/.config/tbprof/config.toml"));
  }
  for (const std::string& path : paths) {
    if (absl::Status status = ReadConfig(path, subcommand, false, layers); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Apply(const std::vector<Layer>& layers, const Subcommand& subcommand, Options* options) {
  for (const OptionRow& row : OptionRows()) {
    OptionValue value{std::string(row.default_text), "default", true};
    if ((row.commands & subcommand.bit) != 0) {
      for (const Layer& layer : layers) {
        const auto found = layer.values.find(row.name);
        if (found == layer.values.end()) continue;
        const auto source = layer.sources.find(row.name);
        value = {found->second, source == layer.sources.end() ? layer.source : source->second, false};
        break;
      }
    }
    if (!value.text.empty() || !value.is_default) {
      if (absl::Status status = row.set(*options, value.text); !status.ok()) {
        const bool names_option = value.source == StrCat("--", row.name) || value.source == EnvironmentName(row.name);
        return Usage(StrCat(value.source, names_option ? "" : StrCat(": ", row.name), ": ", status.message(), ", got `",
                            value.text, "`"));
      }
    }
    options->values.push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> ParseTop(const std::vector<std::string>& args) {
  Options options;
  const std::string& word = args[0];
  if (word == "--version" || word == "-V") {
    options.version = true;
    return options;
  }
  if (word == "--help" || word == "-h") {
    options.help = true;
    return options;
  }
  if (word == "--") return Usage("`tbprof --` lacks a subcommand: tbprof run -- COMMAND");
  if (word.size() > 1 && word[0] == '-') {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && FindRow(name.substr(2)) != nullptr) {
      return Usage(StrCat(name, " belongs behind the subcommand: tbprof run ", name, " … COMMAND"));
    }
    std::vector<std::string> names = RowNames(~0u);
    names.insert(names.end(), {"version", "help"});
    return Usage(
        StrCat("unknown option ", name, DidYouMean(name.substr(std::min<size_t>(name.size(), 2)), names, "--")));
  }
  std::vector<std::string> names;
  for (const Subcommand& known : kSubcommands) names.emplace_back(known.name);
  return Usage(
      StrCat("no subcommand `", word, "`", DidYouMean(word, names), "; to profile a command: tbprof run -- ", word));
}

}  // namespace

std::string WorkingDirectory() {
  const std::unique_ptr<char, decltype(&free)> directory(getcwd(nullptr, 0), &free);
  return directory == nullptr ? "/" : directory.get();
}

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

std::optional<std::string_view> Lookup(const Environment& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return std::string_view(entry).substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const Environment& environment,
                                     const std::string& working_directory) {
  if (args.empty()) return Usage("usage: tbprof run [options] [--] COMMAND [ARGUMENT...]; more by `tbprof help`");
  const Subcommand* subcommand = FindSubcommand(args[0]);
  if (subcommand == nullptr) return ParseTop(args);

  Options options;
  options.subcommand = args[0];
  const std::string_view disable = Lookup(environment, "TBPROF_DISABLE").value_or("");
  options.disabled = subcommand->bit == kForRun && !disable.empty() && disable != "0";

  CLI::App app;
  Declare(app, *subcommand);
  absl::StatusOr<Cut> cut = CutWords(app, *subcommand, args);
  if (!cut.ok()) return cut.status();
  std::vector<Layer> layers;
  absl::StatusOr<Layer> flags = ParseFlags(app, cut->options, &options);
  if (!flags.ok()) return flags.status();
  (TakesCommand(*subcommand) ? options.command : options.operands) = std::move(cut->rest);
  if (options.help || subcommand->bit == 0) return options;
  if (subcommand->bit == kForRun && options.command.empty()) {
    return Usage("no command to run; usage: tbprof run [options] [--] COMMAND [ARGUMENT...]");
  }
  // The kill switch works whatever else is wrong.
  if (options.disabled) return options;

  if (absl::Status status = CheckEnvironment(environment); !status.ok()) return status;
  layers.push_back(*std::move(flags));
  layers.push_back(EnvironmentLayer(environment));
  if (absl::Status status = AddConfigLayers(*subcommand, environment, working_directory, &layers); !status.ok()) {
    return status;
  }
  if (absl::Status status = Apply(layers, *subcommand, &options); !status.ok()) return status;

  options.logdir_named = !options.values[0].is_default;
  for (size_t i = 0; i < options.values.size(); ++i) {
    if (OptionRows()[i].name == "buffer-size") options.segment_size_named = !options.values[i].is_default;
  }
  if (options.malloc == MallocMode::kOff) options.families &= ~uint32_t{kFamilyMalloc};
  if ((options.families & kFamilyMalloc) == 0) options.malloc = MallocMode::kOff;
  if (options.require_gpu && options.cuda == Cuda::kOff) {
    return Usage("--require-gpu and --cuda=off contradict each other: leave out one of them");
  }
  if (options.require_gpu && (options.families & kFamilyGpu) == 0) {
    return Usage("--require-gpu needs the family gpu, which --trace leaves out");
  }
  return options;
}

}  // namespace tbprof
