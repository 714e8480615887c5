// SPDX-License-Identifier: Apache-2.0
//
// How busy each GPU was in the regular steps. In the whole run, imports and compilation may take most of the time.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_GPU_IN_STEPS_H_
#define TBPROF_WRITER_CONVERT_GPU_IN_STEPS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// Call when steps, all events of GPUs and gaps are known. Sets GpuDevice::busy_in_steps_share. It stays unknown if the
// steps are unknown, if GPU activity is missing in a step or has no times, or if records were lost.
void MeasureGpuInSteps(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_IN_STEPS_H_
