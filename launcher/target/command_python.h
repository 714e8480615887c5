// SPDX-License-Identifier: Apache-2.0
//
// Finds the Python that a command runs, and the packages that this Python can import. Only reads files: neither the
// command nor Python is run.
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

// Supports `python` on PATH, `env`, the first line of a script (torchrun, a console script of a virtual environment),
// `uv run`, `conda run`, a shell's -c. Links are not resolved, so the path names the virtual environment. Empty: no
// Python, or not known.
std::string PythonOfCommand(const std::vector<std::string>& command, const Environment& environment,
                            const std::string& directory);

// The directories from which this Python imports packages, derived from its path.
std::vector<std::string> PackageDirectories(const std::string& python, const Environment& environment);
// Package versions by package name, in lower case and with `_` for `-`: {"xprof": "2.20.0"}.
std::map<std::string, std::string> PackagesOf(const std::string& python, const Environment& environment);
enum class Viewer {
  kTensorBoard,  // with its profile plugin
  kXprofAlone,
  kNone,
};
Viewer ViewerIn(const std::map<std::string, std::string>& packages);

// Whether the environment that tbprof itself is installed in (`env/bin/tbprof`) has TensorBoard with the plugin.
bool HasViewerBesideTbprof(const Environment& environment);
// How a shell of this environment starts TensorBoard: by its name, or by its path beside tbprof if PATH has none.
std::string ViewerCommand(const Environment& environment);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_COMMAND_PYTHON_H_
