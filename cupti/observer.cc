// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/observer.h"

#include "cupti/call_observer.h"
#include "cupti/contexts.h"
#include "cupti/event_pool.h"
#include "cupti/futex.h"
#include "cupti/observed_streams.h"
#include "cupti/observer_state.h"
#include "cupti/work_collector.h"
#include "cupti/work_records.h"

namespace tbprof::cupti {

Observer g_observer;

namespace {

constexpr uint32_t kWorksAtOnce = 256;

}  // namespace

void ServeContexts() {
  for (Context& context : g_observer.contexts) {
    if (ChangeState<kClosing, kReleasing>(&context.state)) {
      ReleaseContext(&context);
    } else if (__atomic_load_n(&context.state, __ATOMIC_ACQUIRE) == kPausing) {
      // Records the finished work first: the context may end now.
      Collect(&context);
      ChangeState<kPausing, kPaused>(&context.state);
      FutexWake(&context.state);
    } else if (__atomic_load_n(&context.state, __ATOMIC_ACQUIRE) == kDraining) {
      Drain(&context);
    }
  }
}

bool PrepareObserving(const GpuBridge* bridge, const GpuSession& session, uint64_t offset) {
  g_observer.bridge = bridge;
  g_observer.session = session;
  g_observer.offset = offset;
  return FindDriver(&g_observer.driver) && bridge->set_observer(&kCallObserver);
}

void StartObserving() { __atomic_store_n(&g_observer.active, 1, __ATOMIC_RELEASE); }

void BeginObserving(ChunkWriter* writer) {
  g_observer.writer = writer;
#define TBPROF_CUDA_CALL(symbol, ...) \
  WriteName(writer, GpuNameKind::kDriverCallback, kFirstCall + static_cast<uint32_t>(CudaCall::symbol), #symbol);
#define TBPROF_CUDA_STREAM_CALL TBPROF_CUDA_CALL
#include "wire/cuda_calls.def"
  WriteName(writer, GpuNameKind::kStream, kCudaLegacyStream, "default stream");
  WriteName(writer, GpuNameKind::kStream, kCudaThreadStream, "default streams of threads");
}

void NameObservedStream(ChunkWriter* writer, void* stream, const char* name) {
  const uint32_t number = StreamNumber(reinterpret_cast<uint64_t>(stream));
  if (number != 0) WriteName(writer, GpuNameKind::kStream, number, name);
}

uint32_t CollectWork() {
  const ScopedRelaxedCapture relaxed;
  uint32_t pending = 0;
  __atomic_store_n(&g_observer.low, 0, __ATOMIC_RELEASE);
  ServeContexts();
  for (Context& context : g_observer.contexts) {
    if (!IsLive(&context)) continue;
    RecordContext(&context);
    TakeReady(&context);
    const bool few = __atomic_load_n(&context.available, __ATOMIC_RELAXED) < context.made / 2 && context.made < kWorks;
    const bool anchored = HasAnchor(&context);
    if (context.pending == 0 && !few && anchored) continue;
    if (!PushContext(context.handle)) continue;
    // First of all, make works: a launch that finds no free work gets no times.
    if (few) MakeWorks(&context, kWorksAtOnce);
    if (!anchored) {
      EnsureAnchor(&context);
    } else if (ReadMonotonic() - context.anchors[context.anchor].ns > kAnchorPeriodNs) {
      RecordClockAnchor(&context, kGoodAnchorNs);
    }
    if (HasAnchor(&context)) Poll(&context);
    PopContext();
    pending += context.pending;
    ServeContexts();
  }
  return pending;
}

void StopObserving(uint64_t limit_ns, bool at_end) {
  const ScopedRelaxedCapture relaxed;
  __atomic_store_n(&g_observer.active, 0, __ATOMIC_RELEASE);
  const uint64_t begun = ReadMonotonic();
  for (Context& context : g_observer.contexts) {
    ServeContexts();
    // Polls in short turns and serves other contexts between them: a thread may be waiting to end its context.
    bool over = false;
    while (!over && IsLive(&context) && PushContext(context.handle)) {
      const uint64_t spent = ReadMonotonic() - begun;
      const uint64_t left = spent < limit_ns ? limit_ns - spent : 0;
      PollFor(&context, left < kReleaseNs ? left : kReleaseNs);
      over = context.pending == 0 || left <= kReleaseNs;
      if (over && IsLive(&context)) RecordUnfinished(&context, at_end ? 0 : Now());
      PopContext();
      ServeContexts();
    }
  }
  if (at_end) AbandonObserving();
}

void AbandonObserving() {
  __atomic_store_n(&g_observer.active, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&g_observer.thread_gone, 1, __ATOMIC_RELEASE);
}

}  // namespace tbprof::cupti
