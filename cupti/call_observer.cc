// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/call_observer.h"

#include "cupti/contexts.h"
#include "cupti/event_pool.h"
#include "cupti/futex.h"
#include "cupti/green_contexts.h"
#include "cupti/kernel_names.h"
#include "cupti/observed_streams.h"
#include "cupti/observer_state.h"
#include "cupti/work_records.h"

namespace tbprof::cupti {
namespace {

bool IsArmed() {
  return __atomic_load_n(&g_observer.active, __ATOMIC_ACQUIRE) != 0 &&
         (__atomic_load_n(&g_observer.session.segment.header->control, __ATOMIC_RELAXED) & kFamilyGpu) != 0;
}

bool IsWork(CudaAction action) {
  return action == CudaAction::kLaunch || action == CudaAction::kGraph || action == CudaAction::kCopy ||
         action == CudaAction::kSet;
}

// 2: device memory; 0: other memory, or memory that CUDA does not know.
int MemoryType(uint64_t address) {
  unsigned type = 0;
  const auto get = g_observer.driver.cuPointerGetAttribute;
  return get != nullptr && get(&type, kPointerMemoryType, address) == kDriverSuccess && type == 2 ? 2 : 0;
}

void FindCopyKind(CudaOperation* operation) {
  if (operation->copy_kind != GpuCopyKind::kUnknown || operation->action != CudaAction::kCopy) return;
  if (operation->addresses[0] == 0 || operation->addresses[1] == 0) return;
  const bool to = MemoryType(operation->addresses[0]) == 2, from = MemoryType(operation->addresses[1]) == 2;
  operation->copy_kind = to     ? from ? GpuCopyKind::kDeviceToDevice : GpuCopyKind::kHostToDevice
                         : from ? GpuCopyKind::kDeviceToHost
                                : GpuCopyKind::kHostToHost;
}

constexpr uint32_t kNoWork = 0;
constexpr uint32_t kCaptured = UINT32_MAX;         // captured into a graph: the device does nothing now
constexpr uint32_t kNotRecorded = UINT32_MAX - 1;  // observed, but not recorded

bool HasEvents(const CudaOperation& operation) {
  return operation.work != kNoWork && operation.work != kCaptured && operation.work != kNotRecorded;
}

// A call may be left while CUDA waits for room in its queues (CudaObserver::left). OnLeft then returns the works that
// are stored here.
void SetInFlight(const CudaOperation& operation, uint32_t work) {
  SignalFence();
  *const_cast<volatile uint32_t*>(operation.in_flight) = work;
  SignalFence();
}

// Returns context index << 16 | work index + 1. A work that a thread holds is in no list of its context; the works of
// one call are linked.
uint32_t BeginIn(Context* context, const CudaOperation& operation) {
  if (context == nullptr || !IsLive(context)) return kNoWork;
  const uint32_t at = PopUnused(context);
  if (at == 0) return kNoWork;
  Work* const work = &context->works[at - 1];
  work->ended_ns = 0;
  work->anchor = __atomic_load_n(&context->anchor, __ATOMIC_ACQUIRE);
  __atomic_fetch_add(&context->anchors[work->anchor].users, 1, __ATOMIC_ACQ_REL);
  const uint32_t number = static_cast<uint32_t>(context - g_observer.contexts) << 16 | at;
  const uint32_t others = *operation.in_flight;
  work->next = others;
  SetInFlight(operation, number);
  if (g_observer.driver.cuEventRecord(work->before, reinterpret_cast<void*>(operation.stream)) != kDriverSuccess) {
    SetInFlight(operation, others);
    ReturnWork(context, at);
    return kNoWork;
  }
  return number;
}

uint32_t BeginWork(const CudaOperation& operation) {
  const Driver& driver = g_observer.driver;
  void* const stream = reinterpret_cast<void*>(operation.stream);
  int capturing = 0;
  if (driver.cuStreamIsCapturing(stream, &capturing) != kDriverSuccess) return kNoWork;
  if (capturing != 0) return kCaptured;
  Context* const context = CurrentContext();
  if (const uint32_t work = BeginIn(context, operation); work != kNoWork) return work;
  // Usually no event was available. Querying the context of the stream would then only slow each such launch.
  if (context != nullptr && __atomic_load_n(&context->available, __ATOMIC_RELAXED) == 0) return kNoWork;
  // CUDA refuses an event in a stream of another context.
  Context* const other = ContextOfStream(operation.stream);
  return other == context ? kNoWork : BeginIn(other, operation);
}

Work* WorkOf(uint32_t work) { return &g_observer.contexts[work >> 16].works[(work & 0xffff) - 1]; }

// The i-th single launch of a launch on several devices.
CudaOperation LaunchOf(const CudaOperation& all, uint32_t i) {
  const CudaLaunch& launch = reinterpret_cast<const CudaLaunch*>(all.object)[i];
  CudaOperation one = all;
  one.action = CudaAction::kLaunch;
  one.has_stream = true;
  one.work = kNoWork;
  one.object = reinterpret_cast<uint64_t>(launch.function);
  one.stream = reinterpret_cast<uint64_t>(launch.stream);
  one.grid_x = launch.grid_x;
  one.grid_y = NarrowDimension(launch.grid_y);
  one.grid_z = NarrowDimension(launch.grid_z);
  one.block_x = NarrowDimension(launch.block_x);
  one.block_y = NarrowDimension(launch.block_y);
  one.block_z = NarrowDimension(launch.block_z);
  one.shared_bytes = launch.shared_bytes;
  one.bytes = 0;
  return one;
}

// Returns the first work; the works are linked in the order of the launches.
uint32_t BeginMany(const CudaOperation& operation) {
  for (auto i = static_cast<uint32_t>(operation.bytes); i-- > 0;) {
    const CudaOperation one = LaunchOf(operation, i);
    const uint32_t work = BeginWork(one);
    if (work == kNoWork || work == kCaptured) continue;
    WorkOf(work)->operation.value = i;
  }
  return *operation.in_flight;
}

// The calls that are observed even while nothing is recorded: ends of contexts, green contexts, and names of handles.
bool IsOurs(CudaAction action) {
  switch (action) {
    case CudaAction::kMakeGreen:
    case CudaAction::kConvertGreen:
    case CudaAction::kEndGreen:
    case CudaAction::kEndContext:
    case CudaAction::kEndDevice:
    case CudaAction::kReleaseDevice:
    case CudaAction::kFunction:
    case CudaAction::kKernel:
    case CudaAction::kFunctionOf:
      return true;
    default:
      return false;
  }
}

bool OnBegin(CudaOperation* operation) {
  if (g_observer.bridge->epoch() != g_observer.session.epoch) return false;
  const bool armed = IsArmed() && g_observer.bridge->writer_of_thread() != nullptr;
  if (!armed && !IsOurs(operation->action)) return false;
  operation->work = armed ? kNoWork : kNotRecorded;
  const ScopedHookBypass bypass;
  if (operation->action == CudaAction::kEndContext || operation->action == CudaAction::kEndDevice) {
    CloseContexts(*operation);
  } else if (operation->action == CudaAction::kReleaseDevice) {
    PauseContexts(*operation);
  } else if (operation->action == CudaAction::kEndGreen) {
    const GreenContext* const green = GreenOf(operation->object);
    operation->value = green == nullptr ? kAnyDevice : green->device;
    PauseContexts(*operation);
  }
  if (!armed) return true;
  operation->correlation = __atomic_add_fetch(&g_observer.correlation, 1, __ATOMIC_RELAXED);
  if (IsWork(operation->action)) {
    FindCopyKind(operation);
    operation->work = BeginWork(*operation);
  } else if (operation->action == CudaAction::kLaunchMany) {
    operation->work = BeginMany(*operation);
  } else if (operation->action == CudaAction::kRelease) {
    CudaMemoryProperties properties[2] = {};  // room for members that a later version adds
    const auto get = g_observer.driver.cuMemGetAllocationPropertiesFromHandle;
    if (get != nullptr && get(properties, operation->object) == kDriverSuccess && properties->location.type == 1) {
      operation->value = static_cast<uint32_t>(properties->location.id) + 1;
    }
  } else if (operation->action == CudaAction::kFree) {
    // The memory may belong to another device than the current one.
    int device = 0;
    const auto get = g_observer.driver.cuPointerGetAttribute;
    if (get != nullptr && get(&device, kPointerDevice, operation->object) == kDriverSuccess && device >= 0) {
      operation->value = static_cast<uint32_t>(device) + 1;
    }
  }
  operation->start = Now();
  return true;
}

// A synchronous copy from or to the host is over when its call returns. An event after it would make the stream look
// busy to the program.
bool IsOverAtReturn(const CudaOperation& operation) {
  return operation.action == CudaAction::kCopy && !operation.asynchronous &&
         operation.copy_kind != GpuCopyKind::kDeviceToDevice && operation.copy_kind != GpuCopyKind::kPeerToPeer;
}

void EndWork(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, int result) {
  if (operation.work == kCaptured) return;
  Context* const context = HasEvents(operation) ? &g_observer.contexts[operation.work >> 16] : ContextOf(operation);
  const uint32_t at = operation.work & 0xffff;
  if (result != kDriverSuccess) {
    SetInFlight(operation, kNoWork);
    if (at != 0) ReturnWork(context, at);
    return;
  }
  const uint32_t name = operation.action == CudaAction::kLaunch ? LaunchedName(writer, operation.object, context) : 0;
  const auto record_without_times = [&] {
    CudaOperation placed = operation;
    placed.stream = StreamKey(operation.stream);
    RecordWork(writer, placed, context, name, 0, 0);
  };
  if (at == 0) return record_without_times();
  Work* const work = &context->works[at - 1];
  if (IsOverAtReturn(operation)) {
    work->ended_ns = now;
  } else if (g_observer.driver.cuEventRecord(work->after, reinterpret_cast<void*>(operation.stream)) !=
             kDriverSuccess) {
    SetInFlight(operation, kNoWork);
    ReturnWork(context, at);
    return record_without_times();
  }
  work->operation = operation;
  work->operation.stream = StreamKey(operation.stream);
  work->name = name;
  SetInFlight(operation, kNoWork);
  uint32_t head = __atomic_load_n(&context->ready, __ATOMIC_ACQUIRE);
  do {
    work->next = head;
  } while (!__atomic_compare_exchange_n(&context->ready, &head, at, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  // Wakes the collector early while there are few works: a fast program submits about a hundred until it has made more.
  const uint32_t low = context->made < kWorks ? context->made / 2 : context->made / 4;
  if (__atomic_load_n(&context->available, __ATOMIC_RELAXED) < low &&
      __atomic_exchange_n(&g_observer.low, 1, __ATOMIC_ACQ_REL) == 0) {
    WakeCollector();
  }
}

void EndMany(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, int result) {
  uint32_t work = operation.work;
  for (uint32_t i = 0; i < operation.bytes; ++i) {
    CudaOperation one = LaunchOf(operation, i);
    if (work != kNoWork && work != kNotRecorded && WorkOf(work)->operation.value == i) {
      one.work = work;
      work = WorkOf(work)->next;
    }
    uint32_t in_flight = one.work;
    SetInFlight(operation, work);
    one.in_flight = &in_flight;
    EndWork(writer, one, now, result);
  }
}

// Returns the works of this call, which are in no list, to their contexts.
void ReturnEvents(const CudaOperation& operation) {
  if (!HasEvents(operation)) return;
  uint32_t work = operation.work;
  do {
    const uint32_t next = operation.action == CudaAction::kLaunchMany ? WorkOf(work)->next : kNoWork;
    ReturnWork(&g_observer.contexts[work >> 16], work & 0xffff);
    work = next;
  } while (work != kNoWork);
}

void OnEnd(CudaOperation* operation, int result) {
  const uint64_t now = Now();
  ChunkWriter* const writer = g_observer.bridge->writer_of_thread();
  const ScopedHookBypass bypass;
  ResumeContexts(*operation);
  if (operation->action == CudaAction::kEndGreen && result == kDriverSuccess) UnregisterGreen(operation->object);
  if (result == kDriverSuccess && operation->action == CudaAction::kMakeGreen) {
    RegisterGreen(*operation->result, nullptr, nullptr, operation->value);
  } else if (result == kDriverSuccess && operation->action == CudaAction::kConvertGreen) {
    RegisterGreen(operation->object, reinterpret_cast<void*>(*operation->result), nullptr, kAnyDevice);
  }
  if (writer == nullptr) {
    SetInFlight(*operation, kNoWork);
    return ReturnEvents(*operation);
  }
  if (operation->work != kNotRecorded) RecordCall(writer, *operation, now, result);
  if (IsWork(operation->action)) return EndWork(writer, *operation, now, result);
  if (operation->action == CudaAction::kLaunchMany) return EndMany(writer, *operation, now, result);
  if (result != kDriverSuccess) return;
  switch (operation->action) {
    case CudaAction::kAllocate:
    case CudaAction::kFree:
    case CudaAction::kRelease:
      return RecordMemory(writer, *operation, now, ContextOf(*operation));
    case CudaAction::kWait:
      return RecordWait(writer, *operation, now, ContextOf(*operation));
    case CudaAction::kFunction:
    case CudaAction::kKernel:
      return NameFunction(writer, *operation->result, reinterpret_cast<const char*>(operation->object),
                          operation->action == CudaAction::kKernel);
    case CudaAction::kFunctionOf:
      return ShareName(operation->object, *operation->result);
    default:
      return;
  }
}

void OnLeft(const CudaOperation& operation) {
  if (g_observer.bridge->epoch() != g_observer.session.epoch) return;
  const ScopedHookBypass bypass;
  ResumeContexts(operation);
  ReturnEvents(operation);
}

}  // namespace

const CudaObserver kCallObserver = {OnBegin, OnEnd, OnLeft};

}  // namespace tbprof::cupti
