// SPDX-License-Identifier: Apache-2.0
//
// The events of a context: pairs around a piece of work, and clock anchors that map device times to host times.
//
// Process: target, threads of the program and tbprof's own. No function makes a CUDA call that waits.
#ifndef TBPROF_CUPTI_EVENT_POOL_H_
#define TBPROF_CUPTI_EVENT_POOL_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

inline constexpr uint64_t kGoodAnchorNs = 1'000'000;
inline constexpr uint64_t kAnchorPeriodNs = 1'000'000'000;

// Index + 1 of a free work, or 0.
uint32_t PopUnused(Context* context);
void PushUnused(Context* context, uint32_t at);
// Frees a work after it was recorded, or if it is not recorded at all.
void ReturnWork(Context* context, uint32_t at);

// The context must be current.
void MakeWorks(Context* context, uint32_t count);
// The context must be current. False: the device has not reached the event in time, or CUDA failed. It polls and never
// waits in CUDA: the work that keeps the device busy may be waiting for this thread.
bool RecordClockAnchor(Context* context, uint64_t limit_ns);
bool HasAnchor(const Context* context);
// The context must be current; call it on tbprof's own thread. The first anchor also maps the times of earlier work.
bool EnsureAnchor(Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_EVENT_POOL_H_
