// SPDX-License-Identifier: Apache-2.0
//
// `tbprof run --baseline=NAME`: compares the run that was just recorded with a baseline.
//
// Process: launcher, main thread, after the run.
#ifndef TBPROF_LAUNCHER_GATE_GATE_RUN_H_
#define TBPROF_LAUNCHER_GATE_GATE_RUN_H_

#include <optional>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"

namespace tbprof {

// Called before the command starts. False: the baseline or a rule cannot be read; the reason was printed.
bool CanGateRun(const Options& options, Terminal* terminal);

// `run`: directory of the run; empty: the run has no profile. True: the run is worse, or with --unclear=fail, it is
// unclear or could not be compared. std::nullopt: it could not be compared; the reason was printed.
std::optional<bool> IsRunWorse(const Options& options, const std::string& run, Terminal* terminal);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GATE_RUN_H_
