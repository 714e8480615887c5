// SPDX-License-Identifier: Apache-2.0
//
// What the launcher asks of recorded processes by words in their segments, and how it waits for the answers: a flush of
// the GPU's records, windows in which GPUs are recorded, PyTorch's operations without sampling.
//
//   SetGpuWindows(targets, windows);
//   FlushGpus(targets, 1000);
//
// Process: launcher, main thread. A stopped process or a lost device may never answer: each wait has a limit.
#ifndef TBPROF_LAUNCHER_SESSION_TARGET_REQUESTS_H_
#define TBPROF_LAUNCHER_SESSION_TARGET_REQUESTS_H_

#include <sys/types.h>

#include <cstdint>

#include "launcher/session/target_registry.h"

namespace tbprof {

// Has the library of each process that uses a GPU look at the control word and flush.
void RequestGpuFlush(const MappedSegment& mapped);
// And waits for all of them.
void FlushGpus(const Targets& targets, int limit_ms);

// `windows`: SegmentHeader::gpu_windows.
void SetGpuWindows(const Targets& targets, uint32_t windows);
// Until the recording of a window that was opened has begun in each process that is GpuState::kLimited.
void WaitForLimitedGpus(const Targets& targets, int limit_ms);
// A process whose GPUs are recorded only in windows, GpuState::kLimited; 0: none.
pid_t FindLimitedGpu(const Targets& targets);

void SetAllTorchOperations(const Targets& targets, bool all);
// A process that runs no operation does not answer.
void WaitForAllTorchOperations(const Targets& targets, int limit_ms);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_TARGET_REQUESTS_H_
