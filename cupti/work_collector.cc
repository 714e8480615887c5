// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/work_collector.h"

#include "cupti/contexts.h"
#include "cupti/event_pool.h"
#include "cupti/observed_streams.h"
#include "cupti/work_records.h"

namespace tbprof::cupti {
namespace {

// The time when the device reached the work; 0: unknown. It is measured from the anchor before the work, or from a
// later anchor that is much nearer: clocks drift, and CUDA reports long times coarsely.
uint64_t StartOf(const Context& context, const Work& work) {
  const Driver& driver = g_observer.driver;
  const uint64_t submitted = work.operation.start - g_observer.offset;
  const ClockAnchor& anchor = context.anchors[work.anchor];
  const ClockAnchor& latest = context.anchors[context.anchor];
  float ms = 0;
  uint64_t start = 0;
  if (anchor.ns == 0) {
    // The work was submitted before the first anchor. `ms` is negative if the device reached it after that anchor.
    if (latest.ns == 0 || driver.cuEventElapsedTime(&ms, work.before, latest.event) != kDriverSuccess) return 0;
    start = latest.ns - static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(ms) * 1e6));
  } else if (submitted > anchor.ns + 2 * kAnchorPeriodNs && latest.ns > submitted &&
             latest.ns - submitted < submitted - anchor.ns &&
             driver.cuEventElapsedTime(&ms, work.before, latest.event) == kDriverSuccess && ms >= 0) {
    start = latest.ns - static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
  } else if (driver.cuEventElapsedTime(&ms, anchor.event, work.before) == kDriverSuccess) {
    start = anchor.ns + (ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0);
  } else {
    return 0;
  }
  // No work begins before it is submitted.
  return (start < submitted ? submitted : start) + g_observer.offset;
}

void RecordEnded(Context* context, const Work& work) {
  float ms = 0;
  uint64_t start = StartOf(*context, work), end = work.ended_ns;
  if (start != 0 && end != 0) {
    if (start > end) start = work.operation.start;
  } else if (start != 0 && g_observer.driver.cuEventElapsedTime(&ms, work.before, work.after) == kDriverSuccess) {
    end = start + (ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0);
  } else {
    start = end = 0;
  }
  // Works of a stream run one after the other; rounded times can overlap and are corrected here.
  Stream* const stream = StreamOf(work.operation.stream);
  uint64_t* const last_end = stream != nullptr                            ? &stream->last_end
                             : work.operation.stream == kCudaLegacyStream ? &context->legacy_end
                                                                          : nullptr;
  if (start != 0 && last_end != nullptr) {
    if (start < *last_end) start = *last_end;
    if (end < start) end = start;
    *last_end = end;
  }
  RecordWork(g_observer.writer, work.operation, context, work.name, start, end);
}

// Passes all submitted works that are not recorded to `record`, oldest first, and frees them.
template <typename Record>
void TakeAll(Context* context, Record record) {
  while (context->oldest != 0) {
    const uint32_t at = context->oldest;
    Work* const work = &context->works[at - 1];
    context->oldest = work->next;
    record(*work);
    ReturnWork(context, at);
  }
  context->newest = 0;
  context->pending = 0;
}

}  // namespace

void TakeReady(Context* context) {
  uint32_t at = __atomic_exchange_n(&context->ready, 0, __ATOMIC_ACQ_REL);
  uint32_t first = 0;
  const uint32_t last = at;
  while (at != 0) {
    Work* const work = &context->works[at - 1];
    const uint32_t next = work->next;
    work->next = first;
    first = at;
    at = next;
    ++context->pending;
  }
  if (first == 0) return;
  if (context->newest != 0) {
    context->works[context->newest - 1].next = first;
  } else {
    context->oldest = first;
  }
  context->newest = last;
}

void Poll(Context* context) {
  constexpr uint32_t kMostBusy = 16;
  uint64_t busy[kMostBusy];
  uint32_t busy_count = 0;
  uint32_t* link = &context->oldest;
  uint32_t previous = 0;
  while (*link != 0) {
    const uint32_t at = *link;
    Work* const work = &context->works[at - 1];
    bool waits = false;
    for (uint32_t i = 0; i < busy_count; ++i) waits |= busy[i] == work->operation.stream;
    if (!waits && g_observer.driver.cuEventQuery(work->ended_ns != 0 ? work->before : work->after) == kDriverNotReady) {
      waits = true;
      if (busy_count < kMostBusy) busy[busy_count++] = work->operation.stream;
    }
    if (waits) {
      previous = at;
      link = &work->next;
      continue;
    }
    *link = work->next;
    if (context->newest == at) context->newest = previous;
    --context->pending;
    RecordEnded(context, *work);
    ReturnWork(context, at);
  }
}

void RecordUnfinished(Context* context, uint64_t end_ns) {
  TakeAll(context, [=](const Work& work) {
    const bool begun = g_observer.driver.cuEventQuery(work.before) == kDriverSuccess;
    const uint64_t known = begun ? StartOf(*context, work) : 0;
    const uint64_t start = known != 0 ? known : work.operation.start;
    RecordWork(g_observer.writer, work.operation, context, work.name, start,
               end_ns != 0 && end_ns < start ? start : end_ns);
  });
}

void PollFor(Context* context, uint64_t limit_ns) {
  const uint64_t begun = ReadMonotonic();
  const uint32_t state = __atomic_load_n(&context->state, __ATOMIC_ACQUIRE);
  uint32_t nothing = 0;
  EnsureAnchor(context);
  for (;;) {
    TakeReady(context);
    Poll(context);
    // Threads may hold some works that they are about to submit.
    const bool all = __atomic_load_n(&context->available, __ATOMIC_ACQUIRE) == context->made;
    if ((context->pending == 0 && all) || ReadMonotonic() - begun >= limit_ns) return;
    FutexWait(&nothing, 0, 500'000);
    if (__atomic_load_n(&context->state, __ATOMIC_ACQUIRE) != state) return;
  }
}

void Collect(Context* context) {
  RecordContext(context);
  TakeReady(context);
  if (context->pending == 0 || !PushContext(context->handle)) return;
  const ScopedRelaxedCapture relaxed;
  EnsureAnchor(context);
  Poll(context);
  PopContext();
}

void ReleaseContext(Context* context) {
  const Driver& driver = g_observer.driver;
  const ScopedRelaxedCapture relaxed;
  bool all = false;
  RecordContext(context);
  if (PushContext(context->handle)) {
    PollFor(context, kReleaseNs);
    RecordUnfinished(context, Now());
    uint32_t destroyed = 0;
    for (uint32_t at; (at = PopUnused(context)) != 0; ++destroyed) {
      driver.cuEventDestroy_v2(context->works[at - 1].before);
      driver.cuEventDestroy_v2(context->works[at - 1].after);
    }
    context->made -= destroyed;
    all = context->made == 0;
    for (const ClockAnchor& anchor : context->anchors) {
      if (all && anchor.event != nullptr) driver.cuEventDestroy_v2(anchor.event);
    }
    if (all) driver.cuStreamDestroy_v2(context->stream);
    PopContext();
  }
  SetHandle(context, nullptr);
  if (all) {
    StoreState<kReleasing, kFree>(&context->state);
  } else {
    StoreState<kReleasing, kDraining>(&context->state);
  }
  FutexWake(&context->state);
}

void Drain(Context* context) {
  TakeReady(context);
  TakeAll(context, [=](const Work& work) { RecordWork(g_observer.writer, work.operation, context, work.name, 0, 0); });
  while (PopUnused(context) != 0) --context->made;
  if (context->made == 0) StoreState<kDraining, kFree>(&context->state);
}

}  // namespace tbprof::cupti
