// SPDX-License-Identifier: Apache-2.0
//
// The rounds of XGBoost and LightGBM as steps: from the start of a round to the start of the next, with its evaluation
// and callbacks.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_STEPS_BOOSTING_STEPS_H_
#define TBPROF_WRITER_STEPS_BOOSTING_STEPS_H_

#include <cstdint>

#include "writer/steps/inferred_steps.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Of the thread of `process`, or else of another process, that has most rounds. Empty: fewer than three.
InferredSteps FindBoostingSteps(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_BOOSTING_STEPS_H_
