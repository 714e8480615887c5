// SPDX-License-Identifier: Apache-2.0
//
// Fills Timeline::step_amounts from the totals of the timeline.
//
// Process: converter. When: after the steps and all totals. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_
#define TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// `own_window`: the run's own window, not a capture's: the calls that were made are those of the whole session.
void MeasureStepAmounts(Timeline* timeline, bool own_window);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_STEP_AMOUNTS_H_
