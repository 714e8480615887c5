// SPDX-License-Identifier: Apache-2.0
//
// Ranges that a window is for (--window=nvtx:NAME, cuda-profiler): when the first of this process begins its segment is
// armed, and when the last ends the launcher gets a report.
//
//   if (IsWaitedFor(name)) BeginWaitedFor();
//
// Process: target, any thread, any signal handler; does not allocate, lock or wait. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TRIGGERS_H_
#define TBPROF_PRELOAD_TRIGGERS_H_

#include <stdint.h>

#include "wire/rendezvous.h"

namespace tbprof {

// The number of the name that is waited for. A name that could not be recorded has 0, so none is something else.
extern __attribute__((visibility("hidden"))) uint64_t g_waited_for;
inline bool IsWaitedFor(uint64_t name) { return name == g_waited_for; }

// Once, in the constructor, before the launcher has the segment.
void SetTrigger(SegmentHeader* header, const SessionVariable& session);

// Called by a thread of this process that records.
void BeginWaitedFor();
void EndWaitedFor();

// cudaProfilerStart and its kin: a switch, whatever it is called how often.
bool IsCudaProfilerWaitedFor();
void SwitchCudaProfiler(bool on);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TRIGGERS_H_
