// SPDX-License-Identifier: Apache-2.0
//
// Driver calls on streams, events and captures.
#include <signal.h>

#include "tests/sim/driver.h"
#include "tests/sim/modes.h"

namespace tbprof::sim {
namespace {

// CUpti_ActivitySynchronizationType
constexpr uint32_t kEventSynchronize = 1, kStreamWaitEvent = 2, kStreamSynchronize = 3;

void ReportSynchronization(uint32_t type, CUcontext context, CUstream stream, CUevent event, int64_t start,
                           CUresult result) {
  if (!Wants(kWantsSynchronization) || TheHooks() == nullptr) return;
  Synchronization told{};
  told.type = type;
  told.context = context->id;
  told.stream = stream == nullptr ? 0xffffffffu : stream->id;
  told.event = event == nullptr ? 0xffffffffu : event->id;
  told.sync_id = event == nullptr ? 0 : event->sync_id.load();
  told.start = start;
  told.end = Now();
  told.correlation = Correlation();
  told.result = static_cast<uint32_t>(result);
  told.context_handle = context;
  told.stream_handle = stream;
  TheHooks()->synchronized(told);
}

CUresult FindEvent(CUevent event) {
  SIM_TRY(Usable());
  if (!Valid(event, Magic::kEvent)) return CUDA_ERROR_INVALID_HANDLE;
  return Root(event->context)->alive.load() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

struct Callback {
  CUstreamCallback function;
  void* data;
  CUstream stream;
};

void RunCallback(void* data) {
  auto* callback = static_cast<Callback*>(data);
  callback->function(callback->stream, CheckFault(callback->stream->context), callback->data);
  delete callback;
}

}  // namespace

// ---- streams

CUresult Driver::cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult Driver::cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (phStream == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phStream = NewStream(context, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetPriority(CUstream hStream, int* priority) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  *streamId = stream->id;
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  *pctx = stream->context;
  if (stream->context->green != nullptr) stream->context->green->converted.store(true);
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (pCtx == nullptr || pGreenCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (hStream == CU_STREAM_PER_THREAD && stream->context->green != nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pCtx = Root(stream->context);
  *pGreenCtx = stream->context->green;
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  SIM_TRY(FindEvent(hEvent));
  const int64_t start = Now();
  if (hEvent->capture == nullptr && !hEvent->recorded.load() && hEvent->unresolved.load() == 0) return CUDA_SUCCESS;
  Op op = NewOp(WorkKind::kEventWait);
  op.event = hEvent;
  op.work.event.id = hEvent->id;
  const CUresult result = Submit(stream, op);
  ReportSynchronization(kStreamWaitEvent, stream->context, stream, hEvent, start, result);
  return result;
}

CUresult Driver::cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture.load() != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto* data = new Callback{callback, userData, stream};
  const CUresult result = cuLaunchHostFunc(stream, RunCallback, data);
  if (result != CUDA_SUCCESS) delete data;
  return result;
}

CUresult Driver::cuStreamQuery(CUstream hStream) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (stream->capture.load() != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return StreamIdle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult Driver::cuStreamSynchronize(CUstream hStream) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  const int64_t start = Now();
  const CUresult result = SynchronizeStream(stream);
  ReportSynchronization(kStreamSynchronize, stream->context, stream, nullptr, start, result);
  return result;
}

CUresult Driver::cuStreamDestroy_v2(CUstream hStream) {
  SIM_TRY(Usable());
  if (hStream == nullptr || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD ||
      !Valid(hStream, Magic::kStream)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  DestroyStream(hStream);
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamCopyAttributes(CUstream dst, CUstream src) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult Driver::cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult Driver::cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- captures

CUresult Driver::cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  static std::atomic<uint64_t> next{1};
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture.load() != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture_last.clear();
  Engine& all = engine();
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) all.global_captures.fetch_add(1);
  stream->capture.store(new Capture{NewGraph(), stream, mode, next.fetch_add(1), false, 1, all.captures_broken.load()});
  stream->context->captures.fetch_add(1);
  return CUDA_SUCCESS;
}

CUresult Driver::cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIM_TRY(Usable());
  ThreadState& state = thread_state();
  const CUstreamCaptureMode before = state.capture_mode;
  state.capture_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return EndCapture(stream, phGraph);
}

namespace {

CUstreamCaptureStatus StatusOf(const Capture* capture) {
  if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

CUresult Driver::cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (stream->legacy && stream->context->captures.load() != 0) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *captureStatus = StatusOf(stream->capture.load());
  return CUDA_SUCCESS;
}

CUresult Driver::cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                           cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                           const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  const Capture* capture = stream->capture.load();
  *captureStatus_out = StatusOf(capture);
  if (capture == nullptr) return CUDA_SUCCESS;
  if (id_out != nullptr) *id_out = capture->id;
  if (graph_out != nullptr) *graph_out = capture->graph;
  if (dependencies_out != nullptr) *dependencies_out = stream->capture_last.data();
  if (edgeData_out != nullptr) *edgeData_out = nullptr;
  if (numDependencies_out != nullptr) *numDependencies_out = stream->capture_last.size();
  return CUDA_SUCCESS;
}

// ---- events

CUresult Driver::cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (phEvent == nullptr || (Flags & ~7u) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto* event = new CUevent_st{};
  event->magic = Magic::kEvent;
  event->id = engine().next_event.fetch_add(1);
  event->context = context;
  event->flags = Flags;
  *phEvent = event;
  return CUDA_SUCCESS;
}

CUresult Driver::cuEventRecord(CUevent hEvent, CUstream hStream) { return cuEventRecordWithFlags(hEvent, hStream, 0); }

CUresult Driver::cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  static std::atomic<int64_t> records{0};
  // Before anything is locked: who handles it may never return.
  if (mode::event_signal() != 0 && ++records % mode::event_signal() == 0) raise(SIGUSR2);
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  SIM_TRY(FindEvent(hEvent));
  // That a green context's streams take the primary one's events, and the other way round, is documented for
  // cuGreenCtxRecordEvent alone.
  const bool same = mode::green_events_apart() != 0 ? hEvent->context == stream->context
                                                    : Root(hEvent->context) == Root(stream->context);
  if (!same) return CUDA_ERROR_INVALID_HANDLE;
  Op op = NewOp(WorkKind::kEventRecord);
  op.event = hEvent;
  op.work.event.id = hEvent->id;
  op.work.event.sync_id = engine().next_sync.fetch_add(1);
  if (stream->capture.load() == nullptr) hEvent->capture = nullptr;
  return Submit(stream, op);
}

// A call that could break a capture by waiting breaks those of all threads that are captured in global mode, unless its
// own thread is relaxed about it (pytorch#104555).
static CUresult CheckCaptures() {
  Engine& all = engine();
  if (all.global_captures.load() == 0 || thread_state().capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  all.captures_broken.fetch_add(1);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Driver::cuEventQuery(CUevent hEvent) {
  SIM_TRY(FindEvent(hEvent));
  SIM_TRY(CheckCaptures());
  if (hEvent->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  SIM_TRY(CheckFault(hEvent->context));
  if (hEvent->unresolved.load() != 0) return CUDA_ERROR_NOT_READY;
  const bool is_over = hEvent->done_at.load() + mode::event_seen_us() * 1000 <= Now();
  return !hEvent->recorded.load() || is_over ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult Driver::cuEventSynchronize(CUevent hEvent) {
  SIM_TRY(FindEvent(hEvent));
  SIM_TRY(CheckCaptures());
  const int64_t start = Now();
  const CUresult result = SynchronizeEvent(hEvent);
  ReportSynchronization(kEventSynchronize, hEvent->context, nullptr, hEvent, start, result);
  return result;
}

// Work that refers to it may be under way: the memory stays.
CUresult Driver::cuEventDestroy_v2(CUevent hEvent) {
  SIM_TRY(FindEvent(hEvent));
  hEvent->magic = Magic::kDead;
  return CUDA_SUCCESS;
}

CUresult Driver::cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  SIM_TRY(FindEvent(hStart));
  SIM_TRY(FindEvent(hEnd));
  if (((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (!hStart->recorded.load() || !hEnd->recorded.load()) {
    const bool coming = hStart->unresolved.load() != 0 || hEnd->unresolved.load() != 0;
    return coming ? CUDA_ERROR_NOT_READY : CUDA_ERROR_INVALID_HANDLE;
  }
  SIM_TRY(cuEventQuery(hStart));
  SIM_TRY(cuEventQuery(hEnd));
  *pMilliseconds = static_cast<float>(static_cast<double>(hEnd->done_at.load() - hStart->done_at.load()) / 1e6);
  return CUDA_SUCCESS;
}

CUresult Driver::cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

}  // namespace tbprof::sim
