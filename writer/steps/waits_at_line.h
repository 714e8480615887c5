// SPDX-License-Identifier: Apache-2.0
//
// The steps between the waits of one line of Python, for --step-marker=train.py:42: the user says that each turn of the
// loop waits there, so that what the other lines do need not repeat.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_WAITS_AT_LINE_H_
#define TBPROF_WRITER_STEPS_WAITS_AT_LINE_H_

#include <cstdint>

#include "writer/steps/inferred_steps.h"

namespace tbprof {

// Steps begin where the line begins to wait. No steps: no line whose text, such as `train.py:42 fit`, matches waits
// often enough in the main thread of `process`, or waits of different kinds at it would make two steps of one.
InferredSteps StepsBetweenWaits(const Timeline& timeline, uint32_t process, const StepNames& names);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_WAITS_AT_LINE_H_
