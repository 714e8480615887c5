// SPDX-License-Identifier: Apache-2.0
//
// Queries events, and records the device work that has ended.
//
// Process: target, tbprof's own thread.
#ifndef TBPROF_CUPTI_WORK_COLLECTOR_H_
#define TBPROF_CUPTI_WORK_COLLECTOR_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

inline constexpr uint64_t kReleaseNs = 200'000'000;  // the end of a context waits this long for its work

// Appends the submitted works to the pending works, oldest first.
void TakeReady(Context* context);
// Records the pending works that have ended. The works of a stream end in order: one query per busy stream is enough.
void Poll(Context* context);
// Polls for up to `limit_ns`; stops when another thread changes the state of the context.
void PollFor(Context* context, uint64_t limit_ns);
// Records the pending works without waiting for them. `end_ns`: they were unfinished at this time; 0: the process ends
// before they do.
void RecordUnfinished(Context* context, uint64_t end_ns);

void Collect(Context* context);
// Destroys the events of a context, except those of works in flight. The program ends the context after this.
void ReleaseContext(Context* context);
// For a context that no longer exists: works that were in flight are recorded without times and freed.
void Drain(Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_WORK_COLLECTOR_H_
