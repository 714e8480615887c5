// SPDX-License-Identifier: Apache-2.0
//
// Which line of the new version is which of the base: an edit above it moves a line of Python.
//
// Process: launcher, for `tbprof compare` and `ab`. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_MOVED_LINES_H_
#define TBPROF_LAUNCHER_GATE_MOVED_LINES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tbprof {

// The time at a line of one function on each side; 0: the side has none there.
struct LineTimes {
  int64_t line = 0;
  double base = 0, now = 0;
};

// `lines`: of one function, in order, at most a few hundred. Returns pairs (index of the base's line, index of the new
// side's) in which an edit has moved lines: the order stays, and as much time as possible has the same line on both
// sides. Empty: the lines are best compared as they are numbered.
std::vector<std::pair<size_t, size_t>> MatchMovedLines(const std::vector<LineTimes>& lines);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_MOVED_LINES_H_
