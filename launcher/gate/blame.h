// SPDX-License-Identifier: Apache-2.0
//
// Where the difference of the step time comes from: by parts of the step, operations, kernels, waits, lines of Python
// and allocation sites.
//
// Process: launcher, for `tbprof compare` and its kin. Pure functions. Method: docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_BLAME_H_
#define TBPROF_LAUNCHER_GATE_BLAME_H_

#include <string>
#include <string_view>

#include "launcher/gate/comparison.h"

namespace tbprof {

// Fills in `blame`, `difference_s` and `unexplained_s` from the runs and `quantities`. The first row is the cause to
// look at first: what has much of the difference and was little before; else the part that changed most. The others
// follow by their difference.
void Blame(Comparison* comparison);

// `train.py step` of `train.py:42 step`: the same place where lines before it were added or taken away.
std::string WithoutLineNumbers(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BLAME_H_
