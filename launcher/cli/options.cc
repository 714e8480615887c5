// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/options.h"

#include <unistd.h>
#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "launcher/base/text.h"
#include "launcher/cli/option_layers.h"
#include "wire/rendezvous.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"
#include "writer/outputs/outputs.h"

namespace tbprof {
namespace {

constexpr Subcommand kSubcommands[] = {{"run", kForRun},         {"convert", kForConvert}, {"recover", kForRecover},
                                       {"attach", kForAttach},   {"capture", kForCapture}, {"status", kForStatus},
                                       {"merge", kForMerge},     {"check", kForCheck},     {"report", kForReport},
                                       {"compare", kForCompare}, {"ab", kForAb},           {"baseline", kForBaseline},
                                       {"config", kForConfig},   {"doctor", kForDoctor},   {"help", 0}};

// Variables that are not options.
constexpr std::string_view kInternalVariables[] = {kSessionVariable, kRunOfSession,    kRanksOfSession,
                                                   kHostOfSession,   "TBPROF_DISABLE", "TBPROF_LIBRARY_DIR",
                                                   "TBPROF_LOG",     "TBPROF_PYTHON"};
constexpr size_t kMaxWarnings = 8;  // about variables
constexpr std::string_view kInternalPrefix = "TBPROF_TEST_";

absl::Status Usage(std::string_view text) { return UsageError(text); }

const Subcommand* FindSubcommand(std::string_view name) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.name == name) return &subcommand;
  }
  return nullptr;
}

bool IsInternal(std::string_view variable) {
  return variable.starts_with(kInternalPrefix) ||
         std::find(std::begin(kInternalVariables), std::end(kInternalVariables), variable) !=
             std::end(kInternalVariables);
}

// True: Kubernetes sets such variables in every container of a namespace that has a service named `tbprof`.
bool IsServiceLink(std::string_view variable, std::string_view value) {
  if (variable == EnvironmentName("port-users")) return false;
  return variable.starts_with("TBPROF_SERVICE_") || variable.starts_with("TBPROF_PORT_") ||
         (variable == "TBPROF_PORT" && value.find("://") != std::string_view::npos);
}

// Only warns: another tool's variable must not keep the command from running.
void CheckEnvironment(const Environment& environment, std::vector<std::string>* warnings) {
  std::vector<std::string> names;
  for (const OptionRow& row : OptionRows()) names.push_back(EnvironmentName(row.name));
  size_t unknown = 0;
  for (const std::string& entry : environment) {
    if (!entry.starts_with("TBPROF_")) continue;
    const std::string name = entry.substr(0, entry.find('='));
    if (IsServiceLink(name, std::string_view(entry).substr(std::min(entry.size(), name.size() + 1)))) continue;
    if (IsInternal(name) || std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (++unknown > kMaxWarnings) continue;
    warnings->push_back(
        PrintableUtf8(StrCat("the environment sets ", TruncateUtf8(PrintableUtf8(name), 200),
                             ", which is no option of tbprof: it has no effect", DidYouMean(name, names))));
  }
  if (unknown > kMaxWarnings) {
    warnings->push_back(StrCat(unknown - kMaxWarnings, " more TBPROF_ variables are no options of tbprof"));
  }
}

bool TakesCommand(const Subcommand& subcommand) { return (subcommand.bit & (kForRun | kForDoctor)) != 0; }

// The words of one subcommand, split where its options end.
struct Cut {
  std::vector<std::string> options;  // as CLI11 takes them: `--name`, `value`
  std::vector<std::string> rest;     // the command, or the operands
};

// CLI11 would start the command at an unknown option, or parse words after the command. The words are therefore split
// first, with CLI11's own table.
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
    option->multi_option_policy(row.repeatable ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  }
  if (subcommand.bit == kForConfig) app.add_flag("--explain");  // what it does anyway
}

absl::StatusOr<OptionLayer> ParseFlags(CLI::App& app, std::vector<std::string> words, Options* options) {
  OptionLayer layer{OptionSource::kCommandLine};
  std::reverse(words.begin(), words.end());  // the order that CLI11 expects
  try {
    app.parse(words);
  } catch (const CLI::Error& error) {
    return Usage(error.what());
  }
  options->help = app.count("--help") > 0;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_single_name();
    if (FindRow(name) == nullptr) continue;
    std::string& value = layer.values[name];
    for (const std::string& given : option->results()) {
      value =
          FindRow(name)->repeatable && !value.empty() ? StrCat(value, std::string(1, kBetweenValues), given) : given;
    }
  }
  return layer;
}

// The launcher of an outer run on this host has set the variable: the user asked for nothing.
bool IsOfSession(const Environment& environment, std::string_view variable, std::string_view value) {
  if (Lookup(environment, kHostOfSession) != HostName()) return false;
  if (variable == "TBPROF_RUN") return Lookup(environment, kRunOfSession) == value;
  return variable == kRanksVariable && Lookup(environment, kRanksOfSession) == value;
}

OptionLayer EnvironmentLayer(const Environment& environment) {
  OptionLayer layer{OptionSource::kEnvironment};
  for (const OptionRow& row : OptionRows()) {
    const std::string variable = EnvironmentName(row.name);
    const std::optional<std::string_view> value = Lookup(environment, variable);
    if (!value.has_value() || value->empty()) continue;  // an empty variable counts as not set
    if (IsServiceLink(variable, *value) || IsOfSession(environment, variable, *value)) continue;
    layer.values[std::string(row.name)] = std::string(*value);
  }
  return layer;
}

// The value of --config or of its variable; empty: not set.
std::string NamedConfig(const std::vector<OptionLayer>& layers) {
  for (const OptionLayer& layer : layers) {
    if (const auto named = layer.values.find("config"); named != layer.values.end()) return named->second;
  }
  return "";
}

std::string SourceName(const OptionLayer& layer, std::string_view option) {
  switch (layer.source) {
    case OptionSource::kCommandLine:
      return StrCat("--", option);
    case OptionSource::kEnvironment:
      return EnvironmentName(option);
    case OptionSource::kConfigFile:
    case OptionSource::kProjectFile:
      return layer.path;
    case OptionSource::kDefault:
      break;
  }
  return "default";
}

bool IsFile(OptionSource source) { return source == OptionSource::kConfigFile || source == OptionSource::kProjectFile; }

// Sets an option from the nearest source with a valid value for it.
absl::Status ApplyRow(const std::vector<OptionLayer>& layers, const OptionRow& row, Options* options,
                      OptionValue* value) {
  for (const OptionLayer& layer : layers) {
    const auto found = layer.values.find(row.name);
    if (found == layer.values.end()) continue;
    *value = {found->second, layer.source, SourceName(layer, row.name)};
    const absl::Status status = row.set(*options, value->text);
    if (status.ok()) return status;
    const std::string line = StrCat(value->source_name, IsFile(layer.source) ? StrCat(": ", row.name) : "", ": ",
                                    status.message(), ", got `", value->text, "`");
    if (layer.source != OptionSource::kProjectFile) return Usage(line);
    options->warnings.push_back(PrintableUtf8(StrCat(TruncateUtf8(PrintableUtf8(line), 400), "; it is not used")));
  }
  *value = {std::string(row.default_text), OptionSource::kDefault, SourceName({}, row.name)};
  return value->text.empty() ? absl::OkStatus() : row.set(*options, value->text);
}

absl::Status Apply(const std::vector<OptionLayer>& layers, const Subcommand& subcommand, Options* options) {
  static const std::vector<OptionLayer> kNone;
  for (const OptionRow& row : OptionRows()) {
    OptionValue value;
    const absl::Status status = ApplyRow((row.commands & subcommand.bit) != 0 ? layers : kNone, row, options, &value);
    if (!status.ok()) return status;
    options->values.push_back(std::move(value));
  }
  return absl::OkStatus();
}

// Checks that need several options.
absl::Status CheckTogether(const Options& options) {
  if (options.require_gpu && options.cuda == Cuda::kOff) {
    return Usage("--require-gpu and --cuda=off contradict each other: leave out one of them");
  }
  if (options.require_gpu && (options.families & kFamilyGpu) == 0) {
    return Usage("--require-gpu needs the family gpu, which --trace leaves out");
  }
  if (options.window.kind == Window::Kind::kNvtx && (options.families & kFamilyAnnotation) == 0) {
    return Usage("--window=nvtx:NAME: --trace leaves annotations out");
  }
  for (const std::string& name : options.also) {
    if (FindOutput(name) != nullptr) continue;
    std::string known;
    for (const Output& output : Outputs()) {
      if (!output.by_default) known += StrCat(known.empty() ? "" : ", ", output.name);
    }
    return Usage(StrCat("--also=", name, ": no such output; there is ", known));
  }
  return absl::OkStatus();
}

absl::Status Build(const std::vector<OptionLayer>& layers, const Subcommand& subcommand,
                   const std::string& working_directory, Options* options) {
  if (absl::Status status = Apply(layers, subcommand, options); !status.ok()) return status;
  const auto is_default = [&](std::string_view option) { return SourceOf(*options, option) == OptionSource::kDefault; };
  options->segment_size_named = !is_default("buffer-size");
  // Without families to record, sampling is off by default as well.
  if (is_default("sample-rate") && options->families == 0) options->sample_rate = 0;
  options->logdir_named = !is_default("logdir");
  options->logdir_required = options->logdir_named && SourceOf(*options, "logdir") != OptionSource::kProjectFile;
  if (!options->logdir_required) options->logdir_base = working_directory;
  if (options->malloc == MallocMode::kOff) options->families &= ~uint32_t{kFamilyMalloc};
  if ((options->families & kFamilyMalloc) == 0) options->malloc = MallocMode::kOff;
  return CheckTogether(*options);
}

// Uses ./tbprof.toml unless that fails: an error in it must not stop the command.
absl::Status BuildFrom(std::vector<OptionLayer> layers, const Subcommand& subcommand,
                       const std::string& working_directory, Options* options) {
  const Options fresh = *options;
  const absl::Status status = Build(layers, subcommand, working_directory, options);
  if (status.ok()) return status;
  std::string project;
  std::erase_if(layers, [&](const OptionLayer& layer) {
    const bool is_project = layer.source == OptionSource::kProjectFile;
    if (is_project && !layer.values.empty()) project = layer.path;
    return is_project;
  });
  if (project.empty()) return status;
  Options without = fresh;
  if (absl::Status other = Build(layers, subcommand, working_directory, &without); !other.ok()) return other;
  without.warnings.push_back(PrintableUtf8(StrCat(std::string(status.message()), "; ", project, " is not used")));
  std::erase(without.config_files, project);
  *options = std::move(without);
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

absl::Span<const Subcommand> Subcommands() { return kSubcommands; }

absl::Status UsageError(std::string_view text) { return InvalidArgument(PrintableUtf8(text)); }

std::string DidYouMean(std::string_view word, const std::vector<std::string>& names, std::string_view prefix) {
  const std::string near = NearestName(word, names);
  return near.empty() ? "" : StrCat("; did you mean ", prefix, near, "?");
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

OptionSource SourceOf(const Options& options, std::string_view option) {
  const absl::Span<const OptionRow> rows = OptionRows();
  for (size_t i = 0; i < std::min(rows.size(), options.values.size()); ++i) {
    if (rows[i].name == option) return options.values[i].source;
  }
  return OptionSource::kDefault;
}

std::string WorkingDirectory() {
  const std::unique_ptr<char, decltype(&free)> directory(getcwd(nullptr, 0), &free);
  return directory == nullptr ? "" : directory.get();
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
  std::vector<OptionLayer> layers;
  absl::StatusOr<OptionLayer> flags = ParseFlags(app, cut->options, &options);
  if (!flags.ok()) return flags.status();
  (TakesCommand(*subcommand) ? options.command : options.operands) = std::move(cut->rest);
  if (options.help || subcommand->bit == 0) return options;
  if (subcommand->bit == kForRun && options.command.empty()) {
    return Usage("no command to run; usage: tbprof run [options] [--] COMMAND [ARGUMENT...]");
  }
  // The kill switch works regardless of other errors.
  if (options.disabled) return options;

  CheckEnvironment(environment, &options.warnings);
  layers.push_back(*std::move(flags));
  layers.push_back(EnvironmentLayer(environment));
  ConfigFiles files;
  absl::Status status = ReadConfigFiles(*subcommand, NamedConfig(layers), environment, working_directory, &files);
  if (!status.ok()) return status;
  options.warnings.insert(options.warnings.end(), files.warnings.begin(), files.warnings.end());
  options.config_files = std::move(files.used);
  std::move(files.layers.begin(), files.layers.end(), std::back_inserter(layers));
  status = BuildFrom(std::move(layers), *subcommand, working_directory, &options);
  if (!status.ok()) return status;
  return options;
}

}  // namespace tbprof
