// SPDX-License-Identifier: Apache-2.0
//
// `tbprof run --baseline=NAME`: the run that was just recorded against a baseline.
//
// Process: launcher, main thread, behind the run.
#ifndef TBPROF_LAUNCHER_GATE_GATE_RUN_H_
#define TBPROF_LAUNCHER_GATE_GATE_RUN_H_

#include <optional>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"

namespace tbprof {

// Before the command starts: false where the baseline or a rule cannot be read, with a line.
bool CanGateRun(const Options& options, Terminal* terminal);

// `run`: directory of the run, empty: it has no profile. Whether it is worse, or unclear where that is to fail;
// nothing: its comparison failed, with a line.
std::optional<bool> IsRunWorse(const Options& options, const std::string& run, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GATE_RUN_H_
