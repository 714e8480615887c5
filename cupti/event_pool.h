// SPDX-License-Identifier: Apache-2.0
//
// The events of a context: pairs around a piece of work, and clock anchors by which the device's times are placed.
//
// Process: target, threads of the program and tbprof's own. No call of CUDA that waits.
#ifndef TBPROF_CUPTI_EVENT_POOL_H_
#define TBPROF_CUPTI_EVENT_POOL_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

inline constexpr uint64_t kGoodAnchorNs = 1'000'000;
inline constexpr uint64_t kAnchorPeriodNs = 1'000'000'000;

// Index + 1 of a free work, or 0.
uint32_t PopUnused(Context* context);
void PushUnused(Context* context, uint32_t at);
// After its records.
void ReturnWork(Context* context, uint32_t at);

// With the context current.
void MakeWorks(Context* context, uint32_t count);
// With the context current. False: the device has not come to it in time. Never a wait in CUDA: what holds the device
// up may be waiting for this thread.
bool RecordClockAnchor(Context* context, uint64_t limit_ns);
bool HasAnchor(const Context* context);
// With the context current, on tbprof's own thread. Work that came before the first anchor is placed by it, too.
bool EnsureAnchor(Context* context);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_EVENT_POOL_H_
