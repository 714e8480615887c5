// SPDX-License-Identifier: Apache-2.0
//
// Whether runs can be compared at all, and what makes it less sure.
//
// Process: launcher, for `tbprof compare` and its kin. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
#define TBPROF_LAUNCHER_GATE_COMPARABILITY_H_

#include <string>
#include <vector>

#include "launcher/gate/comparison.h"

namespace tbprof {

struct Comparability {
  std::string reason;                 // why nothing can be compared: one line. Empty: it can
  std::string no_counts;              // why counts per step cannot be, nor times: one line
  std::string no_times;               // why step times cannot be: one line
  std::string no_wall;                // why no time at all can be: one line
  std::vector<std::string> warnings;  // a line each
};

// Leaves runs of a baseline out that the new runs cannot be compared with, if there are others that they can be
// compared with: a baseline that each commit adds to holds runs of other machines, options and interpreters. Returns a
// line that says how many and why; empty: none.
std::string LeaveOutOfBaseline(const Side& now, Side* base);

// `any_program`: the commands of the two sides may be different programs.
Comparability CheckComparable(const Side& base, const Side& now, bool any_program);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
