// SPDX-License-Identifier: Apache-2.0
//
// Between options.cc, which decides about options, and config_file.cc, which reads them from files: the places that
// options come from, as maps from names to texts.
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_CLI_OPTION_LAYERS_H_
#define TBPROF_LAUNCHER_CLI_OPTION_LAYERS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "launcher/cli/options.h"

namespace tbprof {

struct Subcommand {
  std::string_view name;
  uint32_t bit;
};
absl::Span<const Subcommand> Subcommands();

const OptionRow* FindRow(std::string_view name);
std::vector<std::string> RowNames(uint32_t commands);
// `; did you mean --window?`, empty where no name is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& names, std::string_view prefix = "");
// An error for the user: whatever was given is quoted, and goes to a terminal.
absl::Status UsageError(std::string_view text);

// One place that options come from.
struct OptionLayer {
  OptionLayer() = default;
  explicit OptionLayer(std::string from) : source(std::move(from)) {}
  std::string source;
  bool project = false;                                     // ./tbprof.toml: what is wrong there stops nothing
  std::map<std::string, std::string, std::less<>> values;   // by option name
  std::map<std::string, std::string, std::less<>> sources;  // where finer than `source`
};

struct ConfigFiles {
  std::vector<OptionLayer> layers;    // nearest first
  std::vector<std::string> used;      // paths of files that say something
  std::vector<std::string> warnings;  // a line each
};

// `named`: what --config or TBPROF_CONFIG says, or empty. An error only of that file and of the user's own
// (XDG_CONFIG_HOME); the one in the working directory may be anybody's: decision 026.
absl::Status ReadConfigFiles(const Subcommand& subcommand, const std::string& named, const Environment& environment,
                             const std::string& working_directory, ConfigFiles* files);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_OPTION_LAYERS_H_
