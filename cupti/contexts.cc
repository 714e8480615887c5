// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/contexts.h"

#include "cupti/event_pool.h"
#include "cupti/green_contexts.h"

namespace tbprof::cupti {
namespace {

constexpr uint32_t kFirstWorks = 256;  // made by the thread that registers a context
constexpr uint64_t kEndOfContextNs = 1'000'000'000;

Context* KnownContext(const void* handle) {
  for (uint32_t i = 0; i < kMostContexts; ++i) {
    if (__atomic_load_n(&g_observer.handles[i], __ATOMIC_SEQ_CST) == handle) return &g_observer.contexts[i];
  }
  return nullptr;
}

// The first thread that uses a context calls this. Meanwhile the work of other threads in it gets no times. Null: no
// room.
Context* RegisterContext(void* handle) {
  for (Context& context : g_observer.contexts) {
    if (!ChangeState<kFree, kStarting>(&context.state)) continue;
    SetHandle(&context, handle);
    // If two threads register the same handle, the entry with the lower index stays.
    if (Context* const first = KnownContext(handle); first != &context) {
      SetHandle(&context, nullptr);
      StoreState<kStarting, kFree>(&context.state);
      return first;
    }
    const Driver& driver = g_observer.driver;
    const ScopedRelaxedCapture relaxed;
    int device = 0;
    if (driver.cuCtxGetDevice(&device) != kDriverSuccess) device = 0;
    context.device = device;
    context.made = context.available = context.ready = context.oldest = context.newest = context.pending = 0;
    context.unused = 0;
    context.anchor = 0;
    context.is_recorded = false;
    context.legacy_end = 0;
    for (ClockAnchor& anchor : context.anchors) anchor = {};
    const bool good = driver.cuStreamCreate(&context.stream, kStreamNonBlocking) == kDriverSuccess;
    if (good) {
      RecordClockAnchor(&context, kGoodAnchorNs);
      MakeWorks(&context, kFirstWorks);
    }
    if (good) {
      StoreState<kStarting, kLive>(&context.state);
    } else {
      // The work of this context gets no times; another attempt would fail, too.
      StoreState<kStarting, kDead>(&context.state);
    }
    return &context;
  }
  return nullptr;
}

// `handle` need not be the current context. Null: no room, or the driver does not make it current.
Context* ContextBy(void* handle) {
  Context* const known = KnownContext(handle);
  if (known != nullptr) return known;
  if (!PushContext(handle)) return nullptr;
  Context* const context = RegisterContext(handle);
  PopContext();
  return context;
}

void RequestFromOwnThread(Context* context, ContextState requested) {
  if (__atomic_load_n(&g_observer.thread_gone, __ATOMIC_ACQUIRE) != 0) return;
  WakeCollector();
  FutexWaitFor(&context->state, kEndOfContextNs, [requested](uint32_t state) { return state != requested; });
}

// The events end with the context, so tbprof's own thread destroys them first. Only one thread can take the state out
// of kClosing: after this thread's wait has timed out, tbprof's own thread does not touch the context.
void Close(Context* context) {
  if (!ChangeState<kLive, kClosing>(&context->state)) return;
  RequestFromOwnThread(context, kClosing);
  if (ChangeState<kClosing, kDead>(&context->state)) return SetHandle(context, nullptr);
  FutexWaitFor(&context->state, kEndOfContextNs, [](uint32_t state) { return state != kReleasing; });
}

// The program drops a reference, perhaps the last, to the primary context of a device.
void Pause(Context* context) {
  if (!ChangeState<kLive, kPausing>(&context->state)) return;
  RequestFromOwnThread(context, kPausing);
  if (ChangeState<kPausing, kDead>(&context->state)) SetHandle(context, nullptr);
}
void Resume(Context* context, bool exists) {
  if (__atomic_load_n(&context->state, __ATOMIC_ACQUIRE) != kPaused) return;
  if (exists) return StoreState<kPaused, kLive>(&context->state);
  SetHandle(context, nullptr);
  StoreState<kPaused, kDraining>(&context->state);
}

template <typename Act>
void ForContexts(const CudaOperation& operation, Act act) {
  for (Context& context : g_observer.contexts) {
    if (context.handle == nullptr) continue;
    if (operation.action == CudaAction::kEndContext
            ? reinterpret_cast<uint64_t>(context.handle) == operation.object
            : operation.value == kAnyDevice || context.device == static_cast<int>(operation.value)) {
      act(&context);
    }
  }
}

}  // namespace

void SetHandle(Context* context, void* handle) {
  context->handle = handle;
  __atomic_store_n(&g_observer.handles[context - g_observer.contexts], handle, __ATOMIC_SEQ_CST);
}

bool PushContext(void* handle) { return g_observer.driver.cuCtxPushCurrent_v2(handle) == kDriverSuccess; }

void PopContext() {
  void* popped = nullptr;
  g_observer.driver.cuCtxPopCurrent_v2(&popped);
}

Context* CurrentContext() {
  void* handle = nullptr;
  if (g_observer.driver.cuCtxGetCurrent(&handle) != kDriverSuccess || handle == nullptr) return nullptr;
  Context* const context = KnownContext(handle);
  if (context != nullptr) return context;
  const ScopedRelaxedCapture relaxed;
  void* const primary = PrimaryOfGreen(handle, reinterpret_cast<void*>(kCudaLegacyStream));
  return primary != nullptr ? ContextBy(primary) : RegisterContext(handle);
}

Context* ContextOfStream(uint64_t stream) {
  const Driver& driver = g_observer.driver;
  void *const handle = reinterpret_cast<void*>(stream), *context = nullptr, *green = nullptr;
  if (stream <= kCudaThreadStream) return nullptr;
  if (driver.cuStreamGetCtx_v2 != nullptr) {
    // For a stream of a green context, this returns the primary context.
    return driver.cuStreamGetCtx_v2(handle, &context, &green) == kDriverSuccess && context != nullptr
               ? ContextBy(context)
               : nullptr;
  }
  if (driver.cuStreamGetCtx == nullptr || driver.cuStreamGetCtx(handle, &context) != kDriverSuccess ||
      context == nullptr) {
    return nullptr;
  }
  if (Context* const known = KnownContext(context); known != nullptr) return known;
  void* const primary = PrimaryOfGreen(context, handle);
  return ContextBy(primary != nullptr ? primary : context);
}

Context* ContextOf(const CudaOperation& operation) {
  Context* const context = operation.has_stream ? ContextOfStream(operation.stream) : nullptr;
  return context != nullptr ? context : CurrentContext();
}

void CloseContexts(const CudaOperation& operation) { ForContexts(operation, Close); }

void PauseContexts(const CudaOperation& operation) { ForContexts(operation, Pause); }

void ResumeContexts(const CudaOperation& operation) {
  if (operation.action != CudaAction::kReleaseDevice && operation.action != CudaAction::kEndGreen) return;
  ForContexts(operation, [](Context* context) {
    unsigned flags = 0;
    int exists = 0;
    const auto get = g_observer.driver.cuDevicePrimaryCtxGetState;
    if (get == nullptr || get(context->device, &flags, &exists) != kDriverSuccess) exists = 0;
    Resume(context, exists != 0);
  });
}

}  // namespace tbprof::cupti
