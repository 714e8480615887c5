// SPDX-License-Identifier: Apache-2.0
//
// Compares two sides of runs: whether they can be compared, the answer for the step time and each other number, and
// where the difference comes from.
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

// Counts whose values differ by less are equal.
inline constexpr double kEqualShare = 0.001;

struct CompareOptions {
  double margin = 0.03;
  bool paired = false;       // base.runs[i] was run beside now.runs[i], in random order
  double budget_share = 1;   // of the chance of a wrong answer, at this look of several
  bool any_program = false;  // the sides' commands may be different programs
};

// `rules` stays empty.
Comparison Compare(Side base, Side now, const CompareOptions& options);

// The values that the step time of runs is compared by: of all steps, or, where a summary has no list of them, medians.
std::vector<RunValue> StepTimes(const Side& side, bool medians);
bool NeedsMedians(const Side& base, const Side& now);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARE_H_
