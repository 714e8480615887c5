// SPDX-License-Identifier: Apache-2.0
//
// The last stage of each command that compares: rules, output, exit status.
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

// False: EndGate cannot follow `options`; the reason was printed.
bool CanEndGate(const Options& options, Terminal* terminal);

// The rules of --fail-on. std::nullopt: a rule is invalid, and its fault was printed.
std::optional<std::vector<FailRule>> ReadRules(const Options& options, Terminal* terminal);

// Applies the rules, and decides what they mean for the job.
void ApplyRules(const std::vector<FailRule>& rules, bool unclear_passes, Comparison* comparison);

// Applies the rules, prints the comparison in the form that `options` request, and returns the exit status.
int EndGate(const Options& options, Comparison comparison, Terminal* terminal);

// Fails for `worse` and for a rule that fails. If there are rules, only they decide about unclear results: a user who
// limits counts does not ask about times.
GateState StateOfGate(const Comparison& comparison, bool unclear_passes);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GATE_END_H_
