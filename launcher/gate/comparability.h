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
  std::string no_counts;              // why neither counts per step nor times can be compared: one line
  std::string no_times;               // why step times cannot be compared: one line
  std::string no_wall;                // why no time can be compared: one line
  std::vector<std::string> warnings;  // one line each
};

// Removes the runs of a baseline that cannot be compared with the new runs, if other runs of it can: a baseline that
// each commit adds to has runs of other machines, options and interpreters. Returns a line with the number of removed
// runs and the reason; empty: none was removed.
std::string LeaveOutOfBaseline(const Side& now, Side* base);

// `any_program`: allows different programs on the two sides.
Comparability CheckComparable(const Side& base, const Side& now, bool any_program);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
