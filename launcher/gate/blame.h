// SPDX-License-Identifier: Apache-2.0
//
// Attributes the difference of the step time to parts of the step, operations, kernels, waits, lines of Python and
// allocation sites.
//
// Process: launcher, for `tbprof compare`, `ab` and `run --baseline`. Pure functions. Method: docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_BLAME_H_
#define TBPROF_LAUNCHER_GATE_BLAME_H_

#include <string>
#include <string_view>

#include "launcher/gate/comparison.h"

namespace tbprof {

// Sets `blame`, `difference_s` and `unexplained_s` from the runs and `quantities`. The first row is the most likely
// cause: a large share of the difference that was small before; without one, the part that changed most. The other rows
// are sorted by their difference. Requires that the step times can be compared.
void BlameTimes(Comparison* comparison);

// Appends the rows in bytes, which do not depend on the times, to `blame`, sorted by their own size.
void BlameAllocations(Comparison* comparison);

// Makes `train.py step` of `train.py:42 step`, a name that stays the same if lines before it are added or removed.
std::string WithoutLineNumbers(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BLAME_H_
