// SPDX-License-Identifier: Apache-2.0
//
// What the device has done: looks at events, and records the work that has ended.
//
// Process: target, tbprof's own thread.
#ifndef TBPROF_CUPTI_WORK_COLLECTOR_H_
#define TBPROF_CUPTI_WORK_COLLECTOR_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

inline constexpr uint64_t kReleaseNs = 200'000'000;  // what the end of a context waits for its work

// Appends what was submitted to what is pending, the first first.
void TakeReady(Context* context);
// What has ended. A stream's work ends in order: one look at each that has not is enough.
void Poll(Context* context);
// Not longer than the context is ours to look at.
void PollFor(Context* context, uint64_t limit_ns);
// The rest, which is no longer waited for. `end_ns`: it was not over then; 0: the process ends before it does.
void RecordUnfinished(Context* context, uint64_t end_ns);

void Collect(Context* context);
// The context ends when this returns: not before its events are destroyed, but for those of a work in flight.
void ReleaseContext(Context* context);
// Of a context that is no more: works in flight come back, without times.
void Drain(Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_WORK_COLLECTOR_H_
