// SPDX-License-Identifier: Apache-2.0
//
// Ranges that open windows (--window=nvtx:NAME, cuda-profiler): when the first such range of this process begins, the
// library reports it to the launcher and arms its segment; when the last one ends, it reports again.
//
//   if (IsWaitedFor(name)) BeginWaitedFor();
//
// Process: target, any thread, any signal handler; does not allocate, lock or wait. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TRIGGERS_H_
#define TBPROF_PRELOAD_TRIGGERS_H_

#include <stdint.h>

#include "wire/rendezvous.h"

namespace tbprof {

// Number of the name for which a window waits; a value other than 0 if there is none, because 0 is the number of a name
// that could not be recorded.
extern __attribute__((visibility("hidden"))) uint64_t g_waited_for;
inline bool IsWaitedFor(uint64_t name) { return name == g_waited_for; }

// Call this once, in the constructor, before the launcher has the segment.
void SetTrigger(SegmentHeader* header, const SessionVariable& session);

// Call these on a thread of this process that records.
void BeginWaitedFor();
void EndWaitedFor();

// cudaProfilerStart and cudaProfilerStop act as a switch: repeated calls have no further effect.
bool IsCudaProfilerWaitedFor();
void SwitchCudaProfiler(bool on);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TRIGGERS_H_
