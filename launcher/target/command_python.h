// SPDX-License-Identifier: Apache-2.0
//
// The Python that a command runs, and the packages that it finds, by files alone: no code of either is run.
//
//   const std::string python = PythonOfCommand({"torchrun", "train.py"}, environment, directory);
//   if (!python.empty() && ViewerIn(PackagesOf(python, environment)) == Viewer::kNone) ...
//
// Process: launcher. Reads files.
#ifndef TBPROF_LAUNCHER_TARGET_COMMAND_PYTHON_H_
#define TBPROF_LAUNCHER_TARGET_COMMAND_PYTHON_H_

#include <map>
#include <string>
#include <vector>

#include "launcher/cli/options.h"

namespace tbprof {

// `python` on PATH, `env`, the first line of a script (torchrun, a console script of a virtual environment), `uv run`,
// `conda run`, a shell's -c. As a path that keeps the virtual environment's own name. Empty: none, or not known.
std::string PythonOfCommand(const std::vector<std::string>& command, const Environment& environment,
                            const std::string& directory);

// Directories that this Python imports from, by where it lies.
std::vector<std::string> PackageDirectories(const std::string& python, const Environment& environment);
// Versions by name in lower case with `_` for `-`: {"xprof": "2.20.0"}.
std::map<std::string, std::string> PackagesOf(const std::string& python, const Environment& environment);
enum class Viewer {
  kTensorBoard,  // with its profile plugin
  kXprofAlone,
  kNone,
};
Viewer ViewerIn(const std::map<std::string, std::string>& packages);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_COMMAND_PYTHON_H_
