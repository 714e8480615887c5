// SPDX-License-Identifier: Apache-2.0
//
// Records GPU activity without CUPTI: from the calls of CUDA's driver interface, and from CUDA events around the work
// that they submit. Host times are exact, device times approximate: an event is itself a piece of work, and an idle
// device passes the first event before the work arrives.
//
//   if (PrepareObserving(bridge, session, 0)) StartObserving();   // inside cuInit
//   BeginObserving(writer);                                    // the rest on tbprof's own thread
//   while (...) pending = CollectWork();
//   StopObserving(limit_ns, at_end);
//
// Process: target. On a program's thread nothing allocates but CUDA, for an event. Such a thread waits for tbprof's own
// thread only in a call that ends a context or drops a reference to one: at most one second until tbprof's own thread
// takes the context, and at most one more until it has released the events.
#ifndef TBPROF_CUPTI_OBSERVER_H_
#define TBPROF_CUPTI_OBSERVER_H_

#include <stdint.h>

#include "wire/gpu_bridge.h"

namespace tbprof::cupti {

// False: this session has no hooks on CUDA, or the driver lacks a needed function. `offset`: the clock of the records
// minus CLOCK_MONOTONIC, in ns. After this call the ends of contexts are observed, whether calls are recorded or not.
bool PrepareObserving(const GpuBridge* bridge, const GpuSession& session, uint64_t offset);

// Starts to record calls. It may be called again after StopObserving.
void StartObserving();

// Call this once: records the names of calls, and keeps the writer of tbprof's own thread.
void BeginObserving(ChunkWriter* writer);

// Records the work that has ended, and makes more events when few are available. Returns the number of unfinished
// works.
uint32_t CollectWork();

// Releases contexts that other threads are ending. CollectWork and StopObserving include it: call it while nothing is
// recorded.
void ServeContexts();

// Stops recording calls. Waits up to `limit_ns` for unfinished work, then records the rest as unfinished. `at_end`:
// tbprof's own thread serves no context after this call.
void StopObserving(uint64_t limit_ns, bool at_end);

// Records a name that the program has given to a stream.
void NameObservedStream(ChunkWriter* writer, void* stream, const char* name);

// Stops observing if tbprof's own thread did not start, or has ended: no thread waits for it any more.
void AbandonObserving();

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_OBSERVER_H_
