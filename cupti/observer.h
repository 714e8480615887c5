// SPDX-License-Identifier: Apache-2.0
//
// What the GPUs do, where CUPTI is unavailable: by the calls of CUDA's driver interface and by events around the work
// that they submit. The host's times are exact, the device's approximate: an event is a piece of work itself, and an
// idle device passes the first before the work has come.
//
//   if (PrepareObserving(bridge, session, 0)) StartObserving();   // inside cuInit
//   BeginObserving(writer);                                    // the rest on tbprof's own thread
//   while (...) pending = CollectWork();
//   StopObserving(limit_ns, at_end);
//
// Process: target. A program's thread allocates only what CUDA allocates for an event; it waits for us in one place,
// for at most a second, where it ends a context whose events are in use.
#ifndef TBPROF_CUPTI_OBSERVER_H_
#define TBPROF_CUPTI_OBSERVER_H_

#include <stdint.h>

#include "wire/gpu_bridge.h"

namespace tbprof::cupti {

// False: this session hooks nothing, or the driver lacks what it takes.
// `offset`: the records' clock is ahead of CLOCK_MONOTONIC by that much, in ns. From here on the ends of
// contexts are seen, whether calls are recorded or not.
bool PrepareObserving(const GpuBridge* bridge, const GpuSession& session, uint64_t offset);

// From here on calls are recorded; again after a stop, too.
void StartObserving();

// Records the names of calls, once.
void BeginObserving(ChunkWriter* writer);

// Records what has ended, and keeps events available. Returns how many works have not ended.
uint32_t CollectWork();

// Releases contexts that other threads end. Part of the other two; for when nothing is recorded.
void ServeContexts();

// No call is recorded from here on. Waits for what has not ended, and records what does not in time as not over.
// `at_end`: this thread will not come again.
void StopObserving(uint64_t limit_ns, bool at_end);

// A name that the program has given to a stream.
void NameObservedStream(ChunkWriter* writer, void* stream, const char* name);

// There is no thread of tbprof's own, or no more.
void AbandonObserving();

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_OBSERVER_H_
