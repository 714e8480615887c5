// SPDX-License-Identifier: Apache-2.0
//
// Compares two sides of runs: checks that they are comparable, gives the answer for the step time and each other
// quantity, and attributes the difference.
//
//   const Comparison comparison = Compare(*base, *now, {.margin = 0.03});
//
// Process: launcher, for `tbprof compare`, `ab` and `run --baseline`. Pure; the same runs give the same comparison.
// Method: docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_COMPARE_H_
#define TBPROF_LAUNCHER_GATE_COMPARE_H_

#include <optional>

#include "launcher/gate/comparison.h"
#include "launcher/gate/statistics.h"

namespace tbprof {

// Counts that differ by a smaller share are equal.
inline constexpr double kEqualShare = 0.001;

struct CompareOptions {
  double margin = 0.03;
  bool paired = false;       // base.runs[i] and now.runs[i] are a pair, run in random order
  double budget_share = 1;   // share of the error probability for this look, see Look
  bool any_program = false;  // the two sides may run different programs
};

// Leaves `rules` empty.
Comparison Compare(Side base, Side now, const CompareOptions& options);

// Makes the answer `cannot tell`, because the times are not to be trusted: a rule on a time is not decided by them
// either. Exact counts keep their answers: load from other programs does not change them.
void WithdrawTimes(const std::string& reason, Comparison* comparison, bool keeps_cpu_time = false);

// The step time of each run for the comparison: the trimmed mean of all steps, or the median if a summary does not list
// them.
std::vector<RunValue> StepTimes(const Side& side, bool medians);
bool NeedsMedians(const Side& base, const Side& now);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARE_H_
