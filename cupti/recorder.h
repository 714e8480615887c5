// SPDX-License-Identifier: Apache-2.0
//
// Records the GPU activity of this process, from its first cuInit to its end.
//
// Process: target.
#ifndef TBPROF_CUPTI_RECORDER_H_
#define TBPROF_CUPTI_RECORDER_H_

#include "wire/gpu_bridge.h"

namespace tbprof::cupti {

// Call this inside the first cuInit, before the first context. Failures are recorded for the profile; the program goes
// on.
void StartRecording(const GpuBridge* bridge);

// Called when the program is about to call CUPTI. Returns when tbprof does not hold CUPTI any more, or after two
// seconds. errno may change.
void Suspend();

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_RECORDER_H_
