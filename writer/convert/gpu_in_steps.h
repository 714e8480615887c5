// SPDX-License-Identifier: Apache-2.0
//
// How busy each GPU was in the regular steps: of the whole run, imports and compilation may be most.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_GPU_IN_STEPS_H_
#define TBPROF_WRITER_CONVERT_GPU_IN_STEPS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// Where steps, all events of GPUs and gaps are known. Sets GpuDevice::busy_in_steps_share; leaves it unknown where the
// steps are, where GPU activity is missing in one of them or has no times, and where records were lost.
void MeasureGpuInSteps(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_IN_STEPS_H_
