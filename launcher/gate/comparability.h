// SPDX-License-Identifier: Apache-2.0
//
// Checks whether runs can be compared, and collects reasons for doubt.
//
// Process: launcher, for `tbprof compare`, `ab` and `run --baseline`. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
#define TBPROF_LAUNCHER_GATE_COMPARABILITY_H_

#include <string>
#include <vector>

#include "launcher/gate/comparison.h"

namespace tbprof {

struct Comparability {
  std::string reason;                 // why nothing can be compared: one line; empty: runs are comparable
  std::string no_times;               // why times cannot be compared: one line
  std::string no_counts;              // why neither counts per step nor times can be compared: one line
  std::vector<std::string> warnings;  // one line each
};

// `any_program`: allows different programs on the two sides.
Comparability CheckComparable(const Side& base, const Side& now, bool any_program);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
