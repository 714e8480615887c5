// SPDX-License-Identifier: Apache-2.0
//
// The end of each command that compares: its rules, what it prints, its exit status.
//
//   return EndGate(options, std::move(comparison), &terminal);
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_GATE_GATE_END_H_
#define TBPROF_LAUNCHER_GATE_GATE_END_H_

#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/cli/terminal.h"
#include "launcher/gate/comparison.h"
#include "launcher/gate/fail_on.h"

namespace tbprof {

// Whether EndGate can do what `options` ask for; else a line says what is wrong with them.
bool CanEndGate(const Options& options, Terminal* terminal);

// The rules of --fail-on. Nothing: one cannot be read, and was told.
std::optional<std::vector<FailRule>> ReadRules(const Options& options, Terminal* terminal);

void ApplyRules(const std::vector<FailRule>& rules, Comparison* comparison);

// Prints the comparison in the form that `options` ask for.
int EndGate(const Options& options, Comparison comparison, Terminal* terminal);

// `worse` fails, and so does a rule that fails. What is unclear is decided by the rules where there are any: who asks
// for counts does not ask for times.
int GateStatus(const Comparison& comparison, bool unclear_passes);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GATE_END_H_
