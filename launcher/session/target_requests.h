// SPDX-License-Identifier: Apache-2.0
//
// Requests of the launcher to recorded processes, written into their segments, and the waits for the answers: a flush
// of GPU records, windows in which GPUs are recorded, recording of all PyTorch operations instead of samples.
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

// Makes the library of each process that uses a GPU read the control word and flush its GPU records.
void RequestGpuFlush(const MappedSegment& mapped);
// Requests a flush from all targets and waits for the answers.
void FlushGpus(const Targets& targets, int limit_ms);

// `windows`: SegmentHeader::gpu_windows.
void SetGpuWindows(const Targets& targets, uint32_t windows);
// Waits until no process is in GpuState::kLimited, so that each has begun to record the opened window.
void WaitForLimitedGpus(const Targets& targets, int limit_ms);
// A process in GpuState::kLimited: its GPUs are recorded only in windows. 0: none.
pid_t FindLimitedGpu(const Targets& targets);

void SetAllTorchOperations(const Targets& targets, bool all);
// Waits until no process samples operations. A process that runs no operation does not answer.
void WaitForAllTorchOperations(const Targets& targets, int limit_ms);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_TARGET_REQUESTS_H_
