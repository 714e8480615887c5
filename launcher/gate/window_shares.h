// SPDX-License-Identifier: Apache-2.0
//
// Compares how two windows of a program spend their time, where no steps are known by which it could be divided.
//
//   const std::vector<ShareRow> rows = ChangedShares(base, now);
//
// Process: launcher, for `tbprof compare`. Pure functions. Method: docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_WINDOW_SHARES_H_
#define TBPROF_LAUNCHER_GATE_WINDOW_SHARES_H_

#include <vector>

#include "launcher/gate/comparison.h"

namespace tbprof {

// Parts, lines and functions whose share of the window's time differs by 5 points or more, and by more than the number
// of samples can explain: by kind, what grew most first. Empty if a window has no such numbers, and for whole runs.
std::vector<ShareRow> ChangedShares(const Side& base, const Side& now);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_WINDOW_SHARES_H_
