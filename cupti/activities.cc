// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in activities.h.
#include "cupti/activities.h"

#include <errno.h>

#include "cupti/futex.h"
#include "cupti/report.h"

namespace tbprof::cupti {
namespace {

constexpr uint32_t kMaxCallbacks = 2048;
constexpr const char* kUnifiedMemory = "unified memory";
constexpr uint32_t kMostFlushes = 20;
constexpr uint64_t kBetweenFlushesNs = 1'000'000, kForFinishedNs = 2'500'000;
constexpr uint64_t kBetweenWakesNs = 10'000'000;

// DEVICE, CONTEXT, STREAM and NAME come first: records of the other kinds refer to their records.
struct Wanted {
  uint32_t kind;
  const char* name;
  bool needed;  // recording fails without this kind
  bool dumped;  // CUPTI also records the objects that exist already, where it can
};
constexpr Wanted kWanted[] = {
    {kActivityDevice, "devices", false, true},
    {kActivityContext, "contexts", false, true},
    {kActivityStream, "streams", false, true},
    {kActivityName, "names", false, false},
    {kActivityConcurrentKernel, "kernels", true, false},
    {kActivityMemcpy, "copies", false, false},
    {kActivityMemcpy2, "copies between devices", false, false},
    {kActivityMemset, "memory sets", false, false},
    {kActivityRuntime, "calls of the CUDA runtime", false, false},
    {kActivitySynchronization, "synchronization", false, false},
    {kActivityOverhead, "CUPTI's overhead", false, false},
    {kActivityMemory2, "device memory", false, false},
};
constexpr const char* kKeptDriverCalls[] = {
    "cuLaunch",     "cuGraphLaunch",       "cuMemcpy",         "cuMemset",           "cuMemAlloc",
    "cuMemFree",    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuModuleLoad",
    "cuLibraryLoad"};
// Not recorded: each operation of PyTorch makes several of these calls, and none causes device work.
constexpr const char* kLeftRuntimeCalls[] = {"cudaGetDevice",           "cudaGetDeviceCount",  "cudaDeviceGetAttribute",
                                             "cudaGetLastError",        "cudaPeekAtLastError", "cudaStreamIsCapturing",
                                             "cudaStreamGetCaptureInfo"};

struct Activities {
  Subscriber subscriber;
  bool attached;
  bool subscribed;
  bool names_known;         // the two bit sets below are filled
  bool driver_calls_on;     // the calls of driver_calls are enabled one by one
  bool driver_kind_on;      // all driver calls are enabled, as a kind
  bool runtime_calls_left;  // the calls of left_runtime_calls are disabled
  uint64_t driver_calls[kMaxCallbacks / 64];
  uint64_t left_runtime_calls[kMaxCallbacks / 64];
  uint8_t zeroed_before;
  bool zeroed_changed;
  uint32_t thread_id_before;
  bool thread_id_changed;
  uint32_t kinds_on;  // bit i: kWanted[i] is enabled
  bool graph_kind_on;
  bool nodes_reported;
  bool unified_memory_on;
  Result unified_memory_refusal;  // CUPTI's last result if it was not ready; else kSuccess
  size_t unread_bytes;            // not reported yet
  Result unread_result;
  uint64_t woken_ns;  // atomic: when a completed buffer last woke tbprof's own thread
};
Activities g_activities;

const Functions& Cupti() { return g_recorder.library.functions; }
bool HasOption(uint32_t option) { return (g_recorder.session.segment.header->gpu_options & option) != 0; }

// ---- what a kill would lose: ProcessSlot::gpu_held_since

void BeginHeld(uint64_t ticks) {
  uint64_t none = 0;
  uint64_t* const since = &g_recorder.session.process->gpu_held_since;
  if (__atomic_load_n(since, __ATOMIC_SEQ_CST) != 0 || !IsOurProcess()) return;
  __atomic_compare_exchange_n(since, &none, ticks, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// Whether the calling thread requests a buffer for CUPTI's notes of a flush of tbprof's own.
bool IsForFlushes() {
  return g_recorder.library.version >= kVersionCuda130 && __atomic_load_n(&g_recorder.flushing, __ATOMIC_RELAXED) &&
         __atomic_load_n(&g_recorder.own_thread, __ATOMIC_RELAXED) == __builtin_thread_pointer();
}

// After buffers were returned. A buffer that is requested between the two lines either sees the 0 or is seen here.
void UpdateHeld() {
  __atomic_store_n(&g_recorder.session.process->gpu_held_since, g_recorder.buffers.OldestTicks(), __ATOMIC_SEQ_CST);
  const uint64_t oldest = g_recorder.buffers.OldestTicks();
  if (oldest != 0) BeginHeld(oldest);
}

// ---- CUPTI's callbacks

void OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = g_recorder.pace.Records(reinterpret_cast<uintptr_t>(__builtin_thread_pointer()));
  // Not held: the program records without registered buffers. Without tbprof CUPTI would drop these records.
  const bool refuse = !IsHeld() && g_recorder.library.version >= kVersionCuda129;
  *buffer = nullptr;
  if (!refuse) {
    const uint64_t since = IsForFlushes() ? 0 : ReadTicks(g_recorder.session.clock);
    *buffer = g_recorder.buffers.Request(since);
    if (*buffer != nullptr && since != 0) BeginHeld(since);
  }
  *size = *buffer == nullptr ? 0 : Buffers::kBufferBytes;
}

// What a flush completes is taken right after it. Threads whose buffers have a few records each complete many.
bool MayWake() {
  if (__atomic_load_n(&g_recorder.flushing, __ATOMIC_RELAXED)) return false;
  const uint64_t now = ReadMonotonic();
  uint64_t last = __atomic_load_n(&g_activities.woken_ns, __ATOMIC_RELAXED);
  return now - last >= kBetweenWakesNs &&
         __atomic_compare_exchange_n(&g_activities.woken_ns, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void OnComplete(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  if (buffer == nullptr) return;
  if (!g_recorder.buffers.Owns(buffer)) {
    // CUPTI had kept a buffer of the program: the program's own callback must receive it.
    void *requested, *completed;
    auto* const registrar = reinterpret_cast<void*>(Cupti().register_callbacks);
    if (g_recorder.bridge->cupti_use->GetBufferCallbacks(registrar, &requested, &completed)) {
      reinterpret_cast<BufferCompleted>(completed)(context, stream, buffer, size, valid);
    }
    return;
  }
  const bool wanted = g_recorder.buffers.Complete(buffer, valid);
  if (wanted || MayWake()) FutexWake(&g_recorder.session.process->gpu_flush_requested);
}

// 0: unknown.
uint64_t NodeNumber(void* node) {
  uint64_t number = 0;
  const bool known = node != nullptr && Cupti().get_graph_node(node, &number) == kSuccess;
  return known ? number : 0;
}

// Runs on the program's thread that creates the node, which may hold locks of the driver.
void RecordGraphNode(const GraphData& graph, bool cloned) {
  const Segment& segment = g_recorder.session.segment;
  if ((__atomic_load_n(&segment.header->control, __ATOMIC_RELAXED) & kFamilyGpu) == 0 || !IsOurProcess()) return;
  ChunkWriter* const writer = g_recorder.bridge->writer_of_thread();
  if (writer == nullptr) return;
  const int saved = errno;
  const uint64_t bypass = g_recorder.bridge->begin_bypass();
  const uint64_t node = NodeNumber(graph.node);
  const uint64_t original = cloned ? NodeNumber(graph.original_node) : 0;
  g_recorder.bridge->end_bypass(bypass);
  errno = saved;
  Reservation reservation;
  if (node == 0 || !BeginRecord(segment, writer, 1, &reservation)) return;
  auto* record = reinterpret_cast<GpuGraphNodeRecord*>(reservation.slots);
  record->ticks = ReadTicks(g_recorder.session.clock);
  record->node = node;
  record->original = cloned && original == 0 ? node : original;
  CommitRecord(segment, writer, reservation, RecordKind::kGpuGraphNode, 0, 0);
}

void OnCallback(void*, uint32_t domain, uint32_t callback, const void* data) {
  if (domain != kDomainResource) return;
  if (callback == kResourceInitFinished || callback == kResourceContextCreated) {
    __atomic_store_n(&g_recorder.init_is_over, true, __ATOMIC_RELEASE);
    return;
  }
  const bool cloned = callback == kResourceGraphNodeCloned;
  if (data == nullptr || (!cloned && callback != kResourceGraphNodeCreated)) return;
  const auto* const graph = static_cast<const GraphData*>(static_cast<const ResourceData*>(data)->descriptor);
  if (graph != nullptr && graph->node_type == kNodeKernel) RecordGraphNode(*graph, cloned);
}

// ---- calls: CUPTI assigns their numbers, CUDA their names

bool IsOneOf(uint64_t* calls, uint32_t callback) { return (calls[callback / 64] >> (callback % 64) & 1) != 0; }

// CUPTI may append a version to `name`: cudaGetDevice_v3020.
bool IsCall(const char* name, const char* call) {
  if (!StartsWith(name, call)) return false;
  const char* const rest = name + TextLength(call);
  return rest[0] == '\0' || (rest[0] == '_' && rest[1] == 'v');
}

void FindCalls() {
  if (g_activities.names_known) return;
  g_activities.names_known = true;
  for (uint32_t callback = 1; callback < kMaxCallbacks; ++callback) {
    const uint64_t bit = uint64_t{1} << (callback % 64);
    const char* name = nullptr;
    if (Cupti().get_callback_name(kDomainDriver, callback, &name) == kSuccess && name != nullptr) {
      bool kept = false;
      for (const char* with : kKeptDriverCalls) kept |= StartsWith(name, with);
      if (kept) g_activities.driver_calls[callback / 64] |= bit;
    }
    name = nullptr;
    if (Cupti().get_callback_name(kDomainRuntime, callback, &name) == kSuccess && name != nullptr) {
      bool left = false;
      for (const char* call : kLeftRuntimeCalls) left |= IsCall(name, call);
      if (left) g_activities.left_runtime_calls[callback / 64] |= bit;
    }
  }
}

// ---- kinds

bool Enable(uint32_t kind, const char* name, bool dumped = false) {
  const Result result = dumped ? Cupti().enable_and_dump(kind) : Cupti().enable(kind);
  if (result == kSuccess) return true;
  ReportMissing(name, result);
  return false;
}

// Enables kKeptDriverCalls.
void EnableDriverCalls() {
  for (uint32_t callback = 1; callback < kMaxCallbacks; ++callback) {
    if (!IsOneOf(g_activities.driver_calls, callback)) continue;
    g_recorder.decoder.KeepDriverCall(callback);
    if (Cupti().enable_driver_call != nullptr && Cupti().enable_driver_call(callback, 1) == kSuccess) {
      g_activities.driver_calls_on = true;
    }
  }
  // Before CUDA 12.5 CUPTI records either all driver calls or none.
  if (!g_activities.driver_calls_on) {
    g_activities.driver_kind_on = Enable(kActivityDriver, "calls of the driver interface");
  }
}

// Call this while the runtime kind is enabled: CUPTI forgets the settings of single calls when the kind is turned off
// and on again.
void SetLeftRuntimeCalls(bool record) {
  if (Cupti().enable_runtime_call == nullptr || (record && !g_activities.runtime_calls_left)) return;
  g_activities.runtime_calls_left = !record;
  for (uint32_t callback = 1; callback < kMaxCallbacks; ++callback) {
    if (IsOneOf(g_activities.left_runtime_calls, callback)) Cupti().enable_runtime_call(callback, record ? 1 : 0);
  }
}

void DisableDriverCalls() {
  if (g_activities.driver_calls_on) {
    for (uint32_t callback = 1; callback < kMaxCallbacks; ++callback) {
      if (IsOneOf(g_activities.driver_calls, callback)) Cupti().enable_driver_call(callback, 0);
    }
  }
  if (g_activities.driver_calls_on || g_activities.driver_kind_on) Cupti().disable(kActivityDriver);
  g_activities.driver_calls_on = g_activities.driver_kind_on = false;
}

// ---- attaching

// Enables callbacks for the end of cuInit and for graph nodes. Without the latter, the kernels of a graph are
// attributed to the call that launched the graph.
void EnableCallbacks() {
  if (Cupti().enable_callback == nullptr) return;
  const auto enable = [](uint32_t callback) {
    return Cupti().enable_callback(1, g_activities.subscriber, kDomainResource, callback) == kSuccess;
  };
  // Only the start, which has no writer yet, runs inside cuInit.
  g_recorder.init_end_is_reported = g_recorder.writer == nullptr && enable(kResourceInitFinished);
  if (g_recorder.init_end_is_reported) enable(kResourceContextCreated);
  // With whole graphs CUPTI records none of their kernels.
  if (Cupti().get_graph_node == nullptr || HasOption(kGpuWholeGraphs)) return;
  // The clone callback first: without it, a clone would look like a newly created node.
  if (enable(kResourceGraphNodeCloned)) enable(kResourceGraphNodeCreated);
}

void SetAttributes() {
  if (Cupti().set_thread_id_type != nullptr) {
    const bool known =
        Cupti().get_thread_id_type != nullptr && Cupti().get_thread_id_type(&g_activities.thread_id_before) == kSuccess;
    if (!known) g_activities.thread_id_before = kThreadIdDefault;
    g_activities.thread_id_changed = Cupti().set_thread_id_type(kThreadIdSystem) == kSuccess;
  }
  if (Cupti().set_attribute == nullptr) return;
  size_t size = sizeof(uint8_t);
  const bool known = Cupti().get_attribute != nullptr &&
                     Cupti().get_attribute(kAttributeZeroedOut, &size, &g_activities.zeroed_before) == kSuccess;
  if (!known) g_activities.zeroed_before = 0;
  // Buffers are zeroed already: otherwise CUPTI zeroes each buffer on the program's thread.
  uint8_t zeroed = 1;
  size = sizeof(zeroed);
  g_activities.zeroed_changed = Cupti().set_attribute(kAttributeZeroedOut, &size, &zeroed) == kSuccess;
}

void RestoreAttributes() {
  if (g_activities.thread_id_changed) Cupti().set_thread_id_type(g_activities.thread_id_before);
  if (g_activities.zeroed_changed) {
    size_t size = sizeof(uint8_t);
    Cupti().set_attribute(kAttributeZeroedOut, &size, &g_activities.zeroed_before);
  }
  g_activities.thread_id_changed = g_activities.zeroed_changed = false;
}

}  // namespace

bool IsAttached() { return g_activities.attached; }

bool Attach() {
  g_activities.attached = true;
  if (g_recorder.share == CuptiShare::kAll) {
    const Result result = Cupti().subscribe(&g_activities.subscriber, OnCallback, nullptr);
    if (result != kSuccess) {
      ReportUnavailable("device activity cannot be recorded", result);
      return false;
    }
    g_activities.subscribed = true;
  }
  SetAttributes();
  const Result registered = Cupti().register_callbacks(OnRequest, OnComplete);
  if (registered != kSuccess) {
    ReportUnavailable("device activity cannot be recorded", registered);
    return false;
  }
  if (g_activities.subscribed) {
    EnableCallbacks();
  } else if (!HasOption(kGpuWholeGraphs) && !g_activities.nodes_reported) {
    g_activities.nodes_reported = true;
    Report(GpuInfoKey::kMissingKind,
           "where nodes of graphs are made, once the program's profiler keeps CUPTI's subscriber: "
           "kernels of such graphs belong to what launches the graph");
  }
  return true;
}

void Detach() {
  if (!g_activities.attached) return;
  g_activities.attached = false;
  RestoreAttributes();
  void *requested, *completed;
  auto* const registrar = reinterpret_cast<void*>(Cupti().register_callbacks);
  if (g_recorder.bridge->cupti_use->GetBufferCallbacks(registrar, &requested, &completed)) {
    Cupti().register_callbacks(reinterpret_cast<BufferRequested>(requested),
                               reinterpret_cast<BufferCompleted>(completed));
  }
  if (g_activities.subscribed) Cupti().unsubscribe(g_activities.subscriber);
  g_activities.subscribed = false;
}

bool EnableAll() {
  bool good = true;
  FindCalls();
  // Inside cuInit there are no objects to dump yet, and the driver must not be called.
  const bool may_dump = g_recorder.writer != nullptr && Cupti().enable_and_dump != nullptr;
  for (uint32_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); ++i) {
    if (Enable(kWanted[i].kind, kWanted[i].name, may_dump && kWanted[i].dumped)) {
      g_activities.kinds_on |= 1u << i;
      if (kWanted[i].kind == kActivityRuntime) SetLeftRuntimeCalls(false);
    } else if (kWanted[i].needed) {
      good = false;
    }
  }
  EnableDriverCalls();
  // With this kind CUPTI makes no records of single graph nodes.
  if (HasOption(kGpuWholeGraphs)) g_activities.graph_kind_on = Enable(kActivityGraphTrace, "whole graphs");
  return good;
}

void ReportUnifiedMemory() {
  if (g_activities.unified_memory_refusal != kSuccess)
    ReportMissing(kUnifiedMemory, g_activities.unified_memory_refusal);
  g_activities.unified_memory_refusal = kSuccess;
}

void DisableAll() {
  if (g_activities.unified_memory_on) Cupti().disable(kActivityUnifiedMemory);
  g_activities.unified_memory_on = false;
  ReportUnifiedMemory();
  SetLeftRuntimeCalls(true);
  for (uint32_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); ++i) {
    if ((g_activities.kinds_on & (1u << i)) != 0) Cupti().disable(kWanted[i].kind);
  }
  g_activities.kinds_on = 0;
  DisableDriverCalls();
  if (g_activities.graph_kind_on) Cupti().disable(kActivityGraphTrace);
  g_activities.graph_kind_on = false;
}

void EnableUnifiedMemory() {
  if (g_activities.unified_memory_on || g_recorder.by_hooks || !HasOption(kGpuUnifiedMemory)) return;
  // One attempt per window: after a refusal there is no other, unless CUPTI was not ready.
  g_activities.unified_memory_on = true;
  constexpr uint32_t kCounters = static_cast<uint32_t>(GpuUnifiedKind::kBetweenDevices);
  UnifiedMemoryConfig wanted[kCounters];
  for (uint32_t i = 0; i < kCounters; ++i) wanted[i] = {kUnifiedOfAllDevices, i + 1, 0, 1};
  // Early versions of CUPTI have four counters.
  constexpr uint32_t kFirstCounters = static_cast<uint32_t>(GpuUnifiedKind::kDeviceFault);
  Result result = kErrorNotSupported;
  if (Cupti().configure_unified_memory != nullptr) {
    result = Cupti().configure_unified_memory(wanted, kCounters);
    if (result == kErrorInvalidParameter) result = Cupti().configure_unified_memory(wanted, kFirstCounters);
  }
  g_activities.unified_memory_refusal = kSuccess;
  if (result == kSuccess) {
    Enable(kActivityUnifiedMemory, kUnifiedMemory);
  } else if (result == kErrorNotInitialized || result == kErrorNotReady) {
    // Usually there is no context yet: tbprof's own thread tries again five times a second.
    g_activities.unified_memory_on = false;
    g_activities.unified_memory_refusal = result;
  } else {
    ReportMissing(kUnifiedMemory, result);
  }
}

// ---- recorded data

void ReadTimeRange() {
  TimeRange* const range = g_recorder.decoder.time_range();
  uint64_t gpu = 0;
  if (g_recorder.bridge->cupti_use->HasClock()) {
    range->GiveUp();
  } else if (Cupti().get_timestamp(&gpu) == kSuccess) {
    range->Add(ReadMonotonic(), gpu);
  }
}

size_t DecodeFilled() {
  size_t bytes = 0;
  Buffers::Filled filled;
  while (g_recorder.buffers.Take(&filled)) {
    bytes += filled.valid;
    // Read the clock after the buffer was filled: the system time may have been set since the last reading.
    ReadTimeRange();
    const Decoder::Unread unread = g_recorder.decoder.TakeBuffer(Cupti().next_record, filled.data, filled.valid);
    if (unread.bytes > 0) {
      g_activities.unread_bytes += unread.bytes;
      g_activities.unread_result = unread.result;
    }
    g_recorder.buffers.Return(filled);
  }
  UpdateHeld();
  return bytes;
}

void DiscardFilled() {
  Buffers::Filled filled;
  while (g_recorder.buffers.Take(&filled)) g_recorder.buffers.Return(filled);
  UpdateHeld();
}

void FlushFinished() {
  uint32_t nothing = 0;
  for (uint32_t i = 0; i < kMostFlushes && g_recorder.buffers.lent() != 0; ++i) {
    if (i > 0) FutexWait(&nothing, 0, kForFinishedNs);
    Cupti().flush_all(0);
    DecodeFilled();
  }
}

void FlushUntilReturned() {
  uint32_t nothing = 0;
  for (uint32_t i = 0; i < kMostFlushes; ++i) {
    Cupti().flush_all(kFlushForced);
    DecodeFilled();
    if (g_recorder.buffers.lent() == 0) return;
    FutexWait(&nothing, 0, kBetweenFlushesNs);
  }
}

void ReportLosses() {
  size_t dropped = 0;
  if (Cupti().dropped_records(nullptr, 0, &dropped) == kSuccess && dropped > 0) {
    Report(GpuInfoKey::kDropped, Text<32>().Add(static_cast<uint64_t>(dropped)));
  }
  if (g_activities.unread_bytes != 0) {
    ReportUnread(g_activities.unread_bytes, g_activities.unread_result);
    g_activities.unread_bytes = 0;
  }
  if (g_recorder.decoder.unknown() != g_recorder.unknown_reported) {
    g_recorder.unknown_reported = g_recorder.decoder.unknown();
    Report(GpuInfoKey::kUnknown, Text<32>().Add(g_recorder.unknown_reported));
  }
}

}  // namespace tbprof::cupti
