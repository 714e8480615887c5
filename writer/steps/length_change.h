// SPDX-License-Identifier: Apache-2.0
//
// Whether the length of the steps changes lastingly from one part of a run to another.
//
//   const LengthChange change = FindLengthChange(steps, LengthsOf(steps));
//   if (change.kind != ChangeKind::kNone) ... change.sides[i] of steps[i]
//
// Process: converter. A pure function.
#ifndef TBPROF_WRITER_STEPS_LENGTH_CHANGE_H_
#define TBPROF_WRITER_STEPS_LENGTH_CHANGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "writer/timeline/step_change.h"
#include "writer/timeline/time_span.h"

namespace tbprof {

enum class StepSide : uint8_t { kNeither, kBefore, kAfter };

struct LengthChange {
  ChangeKind kind = ChangeKind::kNone;
  size_t first = 0, end = 0;            // the changed steps; of a drift, all that were compared
  std::vector<StepSide> sides;          // of each step; kNeither: warm-up, or far from the median of its side
  int64_t before_ps = 0, after_ps = 0;  // median lengths
};

std::vector<int64_t> LengthsOf(std::span<const TimeSpan> steps);

// `steps`: in order of time, irregular ones included. `lengths`: of each, the part of its length that is compared.
LengthChange FindLengthChange(std::span<const TimeSpan> steps, std::span<const int64_t> lengths);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_LENGTH_CHANGE_H_
