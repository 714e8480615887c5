// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/event_pool.h"

#include "cupti/futex.h"

namespace tbprof::cupti {
namespace {

constexpr uint64_t kFirstAnchorNs = 50'000'000;

}  // namespace

uint32_t PopUnused(Context* context) {
  uint64_t head = __atomic_load_n(&context->unused, __ATOMIC_ACQUIRE);
  for (;;) {
    const auto at = static_cast<uint32_t>(head);
    if (at == 0) return 0;
    const uint64_t next = __atomic_load_n(&context->works[at - 1].next, __ATOMIC_RELAXED) | ((head >> 32) + 1) << 32;
    if (__atomic_compare_exchange_n(&context->unused, &head, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      __atomic_fetch_sub(&context->available, 1, __ATOMIC_RELAXED);
      return at;
    }
  }
}

void PushUnused(Context* context, uint32_t at) {
  uint64_t head = __atomic_load_n(&context->unused, __ATOMIC_ACQUIRE);
  for (;;) {
    __atomic_store_n(&context->works[at - 1].next, static_cast<uint32_t>(head), __ATOMIC_RELAXED);
    const uint64_t next = at | ((head >> 32) + 1) << 32;
    if (__atomic_compare_exchange_n(&context->unused, &head, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
  }
  __atomic_fetch_add(&context->available, 1, __ATOMIC_RELAXED);
}

void ReturnWork(Context* context, uint32_t at) {
  __atomic_fetch_sub(&context->anchors[context->works[at - 1].anchor].users, 1, __ATOMIC_ACQ_REL);
  PushUnused(context, at);
}

void MakeWorks(Context* context, uint32_t count) {
  const Driver& driver = g_observer.driver;
  for (uint32_t i = 0; i < count && context->made < kWorks; ++i) {
    Work* const work = &context->works[context->made];
    if (driver.cuEventCreate(&work->before, 0) != kDriverSuccess) return;
    if (driver.cuEventCreate(&work->after, 0) != kDriverSuccess) {
      driver.cuEventDestroy_v2(work->before);
      return;
    }
    PushUnused(context, ++context->made);
  }
}

bool RecordClockAnchor(Context* context, uint64_t limit_ns) {
  const Driver& driver = g_observer.driver;
  const uint32_t at = (context->anchor + 1) % kAnchors;
  ClockAnchor* const anchor = &context->anchors[at];
  if (__atomic_load_n(&anchor->users, __ATOMIC_ACQUIRE) != 0) return false;
  if (anchor->event == nullptr && driver.cuEventCreate(&anchor->event, 0) != kDriverSuccess) return false;
  const uint64_t before = ReadMonotonic();
  if (driver.cuEventRecord(anchor->event, context->stream) != kDriverSuccess) return false;
  const uint64_t recorded = ReadMonotonic();
  uint32_t nothing = 0;
  uint64_t query_ns;
  do {
    // A thread that was descheduled must not lose its time to the limit: the limit begins when the event is recorded,
    // and this time is read before the query, so that there is a query after the limit.
    query_ns = ReadMonotonic();
    const int result = driver.cuEventQuery(anchor->event);
    const uint64_t after = ReadMonotonic();
    if (result == kDriverSuccess) {
      // An idle device reaches the event during cuEventRecord. If the device is busy, or this thread or the query is
      // late, the time is only known to be between the two readings. The earliest makes no work end after the wait for
      // it, or after the recording, where it would not be shown: StartOf delays a time that is before its submission.
      const bool at_once = after - before < kGoodAnchorNs;
      anchor->ns = at_once ? before + (recorded - before) / 2 : before;
      __atomic_store_n(&context->anchor, at, __ATOMIC_RELEASE);
      return true;
    }
    if (result != kDriverNotReady) return false;
    if (after - before > kGoodAnchorNs) FutexWait(&nothing, 0, kGoodAnchorNs);
  } while (query_ns < recorded + limit_ns);
  return false;
}

bool HasAnchor(const Context* context) {
  return context->anchors[__atomic_load_n(&context->anchor, __ATOMIC_ACQUIRE)].ns != 0;
}

bool EnsureAnchor(Context* context) { return HasAnchor(context) || RecordClockAnchor(context, kFirstAnchorNs); }

}  // namespace tbprof::cupti
