// SPDX-License-Identifier: Apache-2.0
//
// Fills in Timeline::step_amounts from its totals.
//
// Process: converter. When: behind the steps and all totals. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_
#define TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

void MeasureStepAmounts(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_
