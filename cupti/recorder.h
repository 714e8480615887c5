// SPDX-License-Identifier: Apache-2.0
//
// Records what the GPUs do for this process, from the first cuInit to its end.
//
// Process: target.
#ifndef TBPROF_CUPTI_RECORDER_H_
#define TBPROF_CUPTI_RECORDER_H_

#include "wire/gpu_bridge.h"

namespace tbprof::cupti {

// Inside the first cuInit, before there is a context. Whatever is in the way is recorded for the profile; the program
// goes on.
void StartRecording(const GpuBridge* bridge);

// The program is about to call CUPTI, which tbprof holds: returns when it does not, or after two seconds. Errno may
// change.
void Suspend();

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_RECORDER_H_
