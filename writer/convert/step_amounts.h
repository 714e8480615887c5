// SPDX-License-Identifier: Apache-2.0
//
// Fills Timeline::step_amounts from the totals of the timeline.
//
// Process: converter. When: after the steps and all totals. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_
#define TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

void MeasureStepAmounts(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_
