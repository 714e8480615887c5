// SPDX-License-Identifier: Apache-2.0
//
// The sources of options, as maps from option names to texts. Shared by options.cc, which combines the sources, and
// config_file.cc, which reads options from files.
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
// `; did you mean --window?`; empty: no similar name.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& names, std::string_view prefix = "");
// An error for the user. The text quotes user input and goes to a terminal, so it is made printable.
absl::Status UsageError(std::string_view text);

// The options of one source. Faults in a project file are not errors.
struct OptionLayer {
  OptionSource source = OptionSource::kDefault;
  std::string path = {};                                        // of a file
  std::map<std::string, std::string, std::less<>> values = {};  // by option name
};

struct ConfigFiles {
  std::vector<OptionLayer> layers;    // nearest first
  std::vector<std::string> used;      // paths of files that set options
  std::vector<std::string> warnings;  // one line each
};

// `named`: value of --config or TBPROF_CONFIG, or empty. Faults are errors only in that file and in the user's own file
// (XDG_CONFIG_HOME); the file in the working directory is untrusted: decision 026.
absl::Status ReadConfigFiles(const Subcommand& subcommand, const std::string& named, const Environment& environment,
                             const std::string& working_directory, ConfigFiles* files);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_OPTION_LAYERS_H_
