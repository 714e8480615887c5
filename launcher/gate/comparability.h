// SPDX-License-Identifier: Apache-2.0
//
// Checks whether runs can be compared, and collects reasons for doubt.
//
// Process: launcher, for `tbprof compare`, `ab` and `run --baseline`. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
#define TBPROF_LAUNCHER_GATE_COMPARABILITY_H_

#include <optional>
#include <string>
#include <vector>

#include "launcher/gate/comparison.h"

namespace tbprof {

struct Comparability {
  std::string reason;                 // why nothing can be compared: one line; empty: runs are comparable
  std::string no_counts;              // why neither counts per step nor times can be compared: one line
  std::string no_totals;              // why totals of the whole run, by its steps, cannot be compared: one line
  std::string no_times;               // why step times cannot be compared: one line
  std::string no_wall;                // why no time can be compared: one line
  std::vector<std::string> warnings;  // one line each
};

// The runs of both sides for each kind of numbers. A baseline that each commit adds to has runs of other machines,
// options and programs: on either side, those that do not fit are left out. Runs that were named are always there. They
// decide, then the newest runs of the new side, then the newest runs of the base.
struct ChosenRuns {
  Sides times;                             // step times and their parts
  std::optional<Sides> all, counts, wall;  // memory, counts per step, wall time; nothing: the same runs as `times`
  std::vector<std::string> warnings;       // how many runs are left out, and why: one line each

  const Sides& ForAll() const { return all.has_value() ? *all : times; }
  const Sides& ForCounts() const { return counts.has_value() ? *counts : times; }
  const Sides& ForWall() const { return wall.has_value() ? *wall : times; }
};
ChosenRuns ChooseRuns(Sides sides, bool any_program);

// `any_program`: allows different programs on the two sides.
Comparability CheckComparable(const ChosenRuns& runs, bool any_program);

// True: all runs of both sides are windows of one process.
bool AreOfOneProcess(const Sides& sides);

// Why the counts of these runs are not exact; empty: they are. `of_run`: they are totals of the whole run, divided by
// its steps.
std::string WhyNotCountable(const Sides& sides, bool of_run);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARABILITY_H_
