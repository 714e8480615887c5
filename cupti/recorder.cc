// SPDX-License-Identifier: Apache-2.0
//
// One thread of the library's own makes every CUPTI call after the start, so that no two flushes ever meet, and turns
// what CUPTI hands back into records. It wakes every 200 ms and whenever the launcher asks (ProcessSlot).
//
// Rules: preload/RULES.md, but for the start, which runs inside the program's cuInit, and that one thread, which waits.
#include "cupti/recorder.h"

#include <errno.h>

#include "cupti/buffers.h"
#include "cupti/decode.h"
#include "cupti/futex.h"
#include "cupti/library.h"
#include "cupti/name_record.h"
#include "cupti/observer.h"
#include "cupti/text.h"
#include "wire/raw.h"

extern "C" {
int __cxa_atexit(void (*routine)(void*), void* argument, void* object);
void* dlopen(const char* name, int mode);
void* dlsym(void* handle, const char* name);
}

namespace tbprof::cupti {
namespace {

constexpr uint64_t kFlushPeriodNs = 200'000'000;
constexpr uint64_t kBusyPeriodNs = 5'000'000;
// What an exit waits for the last flush: a device that is lost may never answer.
constexpr uint64_t kLastFlushNs = 2'000'000'000;
constexpr uint64_t kLastWorkNs = 1'500'000'000;
constexpr uint32_t kBusy = 8;
constexpr uint32_t kMaxCallbacks = 2048;
constexpr uint32_t kUnifiedMemoryTries = 10;

// DEVICE, CONTEXT, STREAM and NAME first: their records explain the others.
struct Wanted {
  uint32_t kind;
  const char* name;
  bool needed;  // without it there is nothing to show
};
constexpr Wanted kWanted[] = {
    {kActivityDevice, "devices", false},
    {kActivityContext, "contexts", false},
    {kActivityStream, "streams", false},
    {kActivityName, "names", false},
    {kActivityConcurrentKernel, "kernels", true},
    {kActivityMemcpy, "copies", false},
    {kActivityMemcpy2, "copies between devices", false},
    {kActivityMemset, "memory sets", false},
    {kActivityRuntime, "calls of the CUDA runtime", false},
    {kActivitySynchronization, "synchronization", false},
    {kActivityOverhead, "CUPTI's overhead", false},
    {kActivityMemory2, "device memory", false},
};
constexpr const char* kKeptDriverCalls[] = {
    "cuLaunch",     "cuGraphLaunch",       "cuMemcpy",         "cuMemset",           "cuMemAlloc",
    "cuMemFree",    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuModuleLoad",
    "cuLibraryLoad"};

constexpr char kAside[] = "program: the program uses CUPTI itself";
constexpr char kNoWindow[] = "window: no window is open";

enum class Phase : uint32_t { kNone, kRunning, kEnding, kEnded };

struct Recorder {
  const GpuBridge* bridge;
  GpuSession session;
  Library library;
  Buffers buffers;
  Pace pace;
  Decoder decoder;
  ChunkWriter* writer;
  Subscriber subscriber;
  bool subscribed;
  bool recording;  // kinds are on
  bool by_hooks;   // and not by CUPTI: observer.h
  uint64_t hooks_clock_offset;
  uint32_t phase;       // Phase
  uint32_t aside;       // the program wants, or has, CUPTI for itself
  uint32_t aside_done;  // and may take it
  uint32_t told;        // what came up before there was a thread that writes
  uint64_t unknown_told;
  const char* paused_for;  // what was told last; null: nothing, or that it records
  uint32_t kinds_on;       // of kWanted, as bits
  bool unified_memory_on;
  uint32_t unified_memory_tries;

  // What is to be told and came up before the library had a thread that writes.
  static constexpr uint32_t kMostPending = 48;
  struct Pending {
    GpuInfoKey key;
    uint64_t ticks;
    Text<512> text;
  };
  Pending pending[kMostPending];
  uint32_t pending_count;
};
Recorder g_recorder;

void WakeOwnThread() { cupti::WakeOwnThread(g_recorder.session.process); }

// Until the own thread has set it so, or has had its time.
void WaitUntil(uint32_t* word, uint32_t wanted) {
  FutexWaitFor(word, kLastFlushNs, [wanted](uint32_t value) { return value == wanted; });
}

// Only this process: a fork child has none of the threads, and CUDA is dead in it.
bool IsOurProcess() { return g_recorder.bridge->epoch() == g_recorder.session.epoch; }

// ---- what the profile is told

void TellAt(uint64_t ticks, GpuInfoKey key, const char* text, uint32_t length) {
  if (g_recorder.writer == nullptr) {
    if (g_recorder.pending_count == Recorder::kMostPending) return;
    Recorder::Pending* const pending = &g_recorder.pending[g_recorder.pending_count++];
    pending->key = key;
    pending->ticks = ticks;
    pending->text.Add(text, length);
    return;
  }
  Reservation reservation;
  if (!BeginRecord(g_recorder.session.segment, g_recorder.writer, 1 + SlotsFor(length), &reservation)) return;
  auto* record = reinterpret_cast<GpuInfoRecord*>(reservation.slots);
  record->ticks = ticks;
  record->text_length = length;
  record->reserved = 0;
  __builtin_memcpy(record + 1, text, length);
  CommitRecord(g_recorder.session.segment, g_recorder.writer, reservation, RecordKind::kGpuInfo, 0,
               static_cast<uint16_t>(key));
}
void Tell(GpuInfoKey key, const char* text) {
  TellAt(ReadTicks(g_recorder.session.clock), key, text, TextLength(text, 4096));
}
template <uint32_t size>
void Tell(GpuInfoKey key, const Text<size>& text) {
  TellAt(ReadTicks(g_recorder.session.clock), key, text.get(), text.length());
}

const char* ResultText(Result result) {
  const char* text = nullptr;
  if (g_recorder.library.functions.get_result_string != nullptr &&
      g_recorder.library.functions.get_result_string(result, &text) == kSuccess && text != nullptr) {
    return text;
  }
  return "unknown error";
}

void SetState(GpuState state) {
  __atomic_store_n(&g_recorder.session.process->gpu_state, static_cast<uint32_t>(state), __ATOMIC_RELEASE);
}

bool MayObserve() { return (g_recorder.session.segment.header->gpu_options & kGpuByHooks) != 0; }

void TellUnavailable(const char* what, Result result) {
  Text<512> text;
  text.Add(what);
  if (result != kSuccess) {
    text.Add(": CUPTI error ")
        .Add(static_cast<uint64_t>(static_cast<uint32_t>(result)))
        .Add(" ")
        .Add(ResultText(result));
  }
  switch (result) {
    case kErrorMultipleSubscribers:
    case kErrorMaxLimitReached:
      text.Add(" (another profiler has this process: Nsight, compute-sanitizer, cuda-gdb or the program's own)");
      break;
    case kErrorInsufficientPrivileges:
      text.Add(" (the driver lets only administrators profile)");
      break;
    case kErrorUnknown:
    case kErrorNotInitialized:
      text.Add(" (no working driver or GPU here, or a CUPTI newer than the driver)");
      break;
    default:
      break;
  }
  Tell(MayObserve() ? GpuInfoKey::kByHooks : GpuInfoKey::kUnavailable, text);
}

// ---- CUPTI's callbacks

void OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = g_recorder.pace.Records(reinterpret_cast<uintptr_t>(__builtin_thread_pointer()));
  *buffer = g_recorder.buffers.Request();
  *size = *buffer == nullptr ? 0 : Buffers::kBufferBytes;
}

void OnComplete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (buffer == nullptr) return;
  if (g_recorder.buffers.Complete(buffer, valid)) FutexWake(&g_recorder.session.process->gpu_flush_requested);
}

// 0: not known.
uint64_t NodeNumber(void* node) {
  uint64_t number = 0;
  const bool known = node != nullptr && g_recorder.library.functions.get_graph_node(node, &number) == kSuccess;
  return known ? number : 0;
}

// On the program's thread that makes the node, which may have locks of the driver.
void OnCallback(void*, uint32_t domain, uint32_t callback, const void* data) {
  const bool cloned = callback == kResourceGraphNodeCloned;
  if (domain != kDomainResource || data == nullptr || (!cloned && callback != kResourceGraphNodeCreated)) return;
  const Segment& segment = g_recorder.session.segment;
  if ((__atomic_load_n(&segment.header->control, __ATOMIC_RELAXED) & kFamilyGpu) == 0 || !IsOurProcess()) return;
  const auto* const graph = static_cast<const GraphData*>(static_cast<const ResourceData*>(data)->descriptor);
  if (graph == nullptr || graph->node_type != kNodeKernel) return;
  ChunkWriter* const writer = g_recorder.bridge->writer_of_thread();
  if (writer == nullptr) return;
  const int saved = errno;
  const uint64_t silenced = g_recorder.bridge->silence();
  const uint64_t node = NodeNumber(graph->node);
  const uint64_t original = cloned ? NodeNumber(graph->original_node) : 0;
  g_recorder.bridge->speak(silenced);
  errno = saved;
  Reservation reservation;
  if (node == 0 || !BeginRecord(segment, writer, 1, &reservation)) return;
  auto* record = reinterpret_cast<GpuGraphNodeRecord*>(reservation.slots);
  record->ticks = ReadTicks(g_recorder.session.clock);
  record->node = node;
  record->original = cloned && original == 0 ? node : original;
  CommitRecord(segment, writer, reservation, RecordKind::kGpuGraphNode, 0, 0);
}

// ---- on the library's own thread

void RecordClock() {
  if (g_recorder.writer == nullptr) return;
  // The narrowest of a few: a reading that was interrupted says little.
  GpuClockRecord best{};
  uint64_t width = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    uint64_t gpu = 0;
    const uint64_t before = ReadTicks(g_recorder.session.clock);
    if (g_recorder.by_hooks) {
      gpu = ReadMonotonic() + g_recorder.hooks_clock_offset;
    } else if (g_recorder.library.functions.get_timestamp(&gpu) != kSuccess) {
      return;
    }
    const uint64_t after = ReadTicks(g_recorder.session.clock);
    if (after - before >= width) continue;
    width = after - before;
    best.ticks_before = before;
    best.gpu_ns = gpu;
    best.ticks_after = after;
  }
  Reservation reservation;
  if (!BeginRecord(g_recorder.session.segment, g_recorder.writer, 1, &reservation)) return;
  auto* record = reinterpret_cast<GpuClockRecord*>(reservation.slots);
  record->ticks_before = best.ticks_before;
  record->gpu_ns = best.gpu_ns;
  record->ticks_after = best.ticks_after;
  CommitRecord(g_recorder.session.segment, g_recorder.writer, reservation, RecordKind::kGpuClock, 0, 0);
}

// How many buffers there were.
uint32_t DecodeFilled() {
  uint32_t count = 0;
  Buffers::Filled filled;
  while (g_recorder.buffers.Take(&filled)) {
    ++count;
    g_recorder.decoder.BeginBuffer();
    Activity* activity = nullptr;
    if (filled.valid > 0) {
      while (g_recorder.library.functions.next_record(filled.data, filled.valid, &activity) == kSuccess) {
        g_recorder.decoder.Take(activity);
      }
    }
    g_recorder.buffers.Return(filled);
  }
  return count;
}

void TellLosses() {
  size_t dropped = 0;
  if (g_recorder.library.functions.dropped_records(nullptr, 0, &dropped) == kSuccess && dropped > 0) {
    Tell(GpuInfoKey::kDropped, Text<32>().Add(static_cast<uint64_t>(dropped)));
  }
  if (g_recorder.decoder.unknown() != g_recorder.unknown_told) {
    g_recorder.unknown_told = g_recorder.decoder.unknown();
    Tell(GpuInfoKey::kUnknown, Text<32>().Add(g_recorder.unknown_told));
  }
}

// How busy it was: buffers, or work that has not ended.
uint32_t Flush(uint32_t flags) {
  RecordClock();
  if (g_recorder.by_hooks) return CollectWork() > 0 ? kBusy : 0;
  g_recorder.library.functions.flush_all(flags);
  const uint32_t count = DecodeFilled();
  RecordClock();
  TellLosses();
  return count;
}

void TellMissing(const char* name, Result result) {
  Text<256> text;
  text.Add(name).Add(": CUPTI error ").Add(static_cast<uint64_t>(static_cast<uint32_t>(result)));
  Tell(GpuInfoKey::kMissingKind, text.Add(" ").Add(ResultText(result)));
}

bool Enable(uint32_t kind, const char* name) {
  const Result result = g_recorder.library.functions.enable(kind);
  if (result == kSuccess) return true;
  TellMissing(name, result);
  return false;
}

// The calls of the driver interface that cause device work, by their names: numbers are CUPTI's, names are CUDA's.
void EnableDriverCalls() {
  const Functions& functions = g_recorder.library.functions;
  bool any = false;
  for (uint32_t callback = 1; callback < kMaxCallbacks; ++callback) {
    const char* name = nullptr;
    if (functions.get_callback_name(kDomainDriver, callback, &name) != kSuccess || name == nullptr) continue;
    bool kept = false;
    for (const char* with : kKeptDriverCalls) kept |= StartsWith(name, with);
    if (!kept) continue;
    g_recorder.decoder.KeepDriverCall(callback);
    if (functions.enable_driver_call != nullptr) any |= functions.enable_driver_call(callback, 1) == kSuccess;
  }
  // Before CUDA 12.5 there is all or nothing.
  if (!any) Enable(kActivityDriver, "calls of the driver interface");
}

// Without it kernels of graphs belong to what launched the graph.
void EnableGraphNodes() {
  const Functions& functions = g_recorder.library.functions;
  if (functions.enable_callback == nullptr || functions.get_graph_node == nullptr) return;
  // Whole graphs: no kernel of theirs is recorded.
  if ((g_recorder.session.segment.header->gpu_options & kGpuWholeGraphs) != 0) return;
  // Clones first: a copy must never pass for a node that was made by itself.
  if (functions.enable_callback(1, g_recorder.subscriber, kDomainResource, kResourceGraphNodeCloned) != kSuccess)
    return;
  functions.enable_callback(1, g_recorder.subscriber, kDomainResource, kResourceGraphNodeCreated);
}

bool Subscribe() {
  const Functions& functions = g_recorder.library.functions;
  const Result result = functions.subscribe(&g_recorder.subscriber, OnCallback, nullptr);
  if (result != kSuccess) {
    TellUnavailable("device activity cannot be recorded", result);
    return false;
  }
  g_recorder.subscribed = true;
  if (functions.set_thread_id_type != nullptr) functions.set_thread_id_type(kThreadIdSystem);
  if (functions.set_attribute != nullptr) {
    // Otherwise CUPTI zeroes each buffer in the program's thread.
    uint8_t zeroed = 1;
    size_t size = sizeof(zeroed);
    functions.set_attribute(kAttributeZeroedOut, &size, &zeroed);
  }
  const Result registered = functions.register_callbacks(OnRequest, OnComplete);
  if (registered != kSuccess) {
    TellUnavailable("device activity cannot be recorded", registered);
    return false;
  }
  EnableGraphNodes();
  return true;
}

void Unsubscribe() {
  if (!g_recorder.subscribed) return;
  g_recorder.library.functions.unsubscribe(g_recorder.subscriber);
  g_recorder.subscribed = false;
}

// On the own thread, as CUPTI wants to be asked after cuInit.
void EnableUnifiedMemory() {
  const Functions& functions = g_recorder.library.functions;
  if (g_recorder.unified_memory_on || g_recorder.by_hooks) return;
  if ((g_recorder.session.segment.header->gpu_options & kGpuUnifiedMemory) == 0) return;
  // Once for a window: what is refused stays refused.
  g_recorder.unified_memory_on = true;
  constexpr const char* kName = "unified memory";
  constexpr uint32_t kCounters = static_cast<uint32_t>(GpuUnifiedKind::kBetweenDevices);
  UnifiedMemoryConfig wanted[kCounters];
  for (uint32_t i = 0; i < kCounters; ++i) wanted[i] = {kUnifiedOfAllDevices, i + 1, 0, 1};
  // Early CUPTIs know four counters.
  constexpr uint32_t kFirstCounters = static_cast<uint32_t>(GpuUnifiedKind::kDeviceFault);
  Result result = kErrorNotSupported;
  if (functions.configure_unified_memory != nullptr) {
    result = functions.configure_unified_memory(wanted, kCounters);
    if (result == kErrorInvalidParameter) result = functions.configure_unified_memory(wanted, kFirstCounters);
  }
  if (result == kErrorNotInitialized && g_recorder.unified_memory_tries++ < kUnifiedMemoryTries) {
    g_recorder.unified_memory_on = false;
  } else if (result == kSuccess) {
    Enable(kActivityUnifiedMemory, kName);
  } else {
    TellMissing(kName, result);
  }
}

void DisableAll() {
  const Functions& functions = g_recorder.library.functions;
  if (g_recorder.unified_memory_on) functions.disable(kActivityUnifiedMemory);
  g_recorder.unified_memory_on = false;
  for (uint32_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); ++i) {
    if ((g_recorder.kinds_on & (1u << i)) != 0) functions.disable(kWanted[i].kind);
  }
  functions.disable(kActivityDriver);
  if ((g_recorder.session.segment.header->gpu_options & kGpuWholeGraphs) != 0) functions.disable(kActivityGraphTrace);
  g_recorder.kinds_on = 0;
}

bool EnableAll() {
  bool good = true;
  for (uint32_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); ++i) {
    if (Enable(kWanted[i].kind, kWanted[i].name)) {
      g_recorder.kinds_on |= 1u << i;
    } else if (kWanted[i].needed) {
      good = false;
    }
  }
  EnableDriverCalls();
  // Excludes the nodes' own records.
  if ((g_recorder.session.segment.header->gpu_options & kGpuWholeGraphs) != 0) {
    Enable(kActivityGraphTrace, "whole graphs");
  }
  return good;
}

void SetRecording() {
  g_recorder.recording = true;
  g_recorder.paused_for = nullptr;
  RecordClock();
  Tell(GpuInfoKey::kRecording, "");
  SetState(GpuState::kRecording);
}

void TellPaused(const char* why) {
  if (g_recorder.paused_for == why) return;
  g_recorder.paused_for = why;
  Tell(GpuInfoKey::kPaused, why);
  SetState(GpuState::kPaused);
}

// False: there are no hooks in this session, or they will not do.
bool FallBack() {
  if (!MayObserve()) return false;
  // Where CUPTI's clock has been told of already, there is to be but one.
  uint64_t gpu = 0;
  if (g_recorder.library.functions.get_timestamp != nullptr &&
      g_recorder.library.functions.get_timestamp(&gpu) == kSuccess) {
    g_recorder.hooks_clock_offset = gpu - ReadMonotonic();
  }
  if (!PrepareObserving(g_recorder.bridge, g_recorder.session, g_recorder.hooks_clock_offset)) {
    Tell(GpuInfoKey::kUnavailable, "device activity cannot be recorded by hooks either: the driver lacks events");
    return false;
  }
  g_recorder.by_hooks = true;
  if ((g_recorder.session.segment.header->gpu_options & kGpuUnifiedMemory) != 0) {
    Tell(GpuInfoKey::kMissingKind, "unified memory: only CUPTI tells of it");
  }
  // What we ask of the driver would be in the program's own profile.
  if (g_recorder.bridge->set_yield(StepAside, ComeBack)) g_recorder.aside = 1;
  if (g_recorder.writer != nullptr) BeginObserving(g_recorder.writer);
  return true;
}

// On: from here on. False: it cannot be.
bool StartKinds() {
  if (g_recorder.by_hooks) {
    StartObserving();
    SetRecording();
    return true;
  }
  if (!g_recorder.subscribed && !Subscribe()) {
    Unsubscribe();
    return false;
  }
  if (!EnableAll()) {
    DisableAll();
    Unsubscribe();
    TellUnavailable("device activity cannot be recorded: CUPTI refuses to record kernels", kSuccess);
    return false;
  }
  SetRecording();
  return true;
}

void StopKinds(const char* why) {
  if (!g_recorder.recording) return;
  Flush(0);
  if (g_recorder.by_hooks) {
    StopObserving(kLastWorkNs, false);
  } else {
    DisableAll();
    Flush(kFlushForced);
  }
  RecordClock();
  g_recorder.recording = false;
  TellPaused(why);
}

void Exit(void*);

void* EndRun(uint32_t seen) {
  if (g_recorder.by_hooks) AbandonObserving();
  __atomic_store_n(&g_recorder.session.process->gpu_flush_done, seen, __ATOMIC_RELEASE);
  __atomic_store_n(&g_recorder.phase, static_cast<uint32_t>(Phase::kEnded), __ATOMIC_RELEASE);
  FutexWake(&g_recorder.phase);
  return nullptr;
}

void* Run() {
  const GpuSession& session = g_recorder.session;
  uint32_t* const requested = &session.process->gpu_flush_requested;
  bool exit_registered = false;
  for (;;) {
    const uint32_t seen = __atomic_load_n(requested, __ATOMIC_ACQUIRE);
    const auto phase = static_cast<Phase>(__atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE));
    if (!IsOurProcess()) return nullptr;
    const bool armed = (__atomic_load_n(&session.segment.header->control, __ATOMIC_RELAXED) & kFamilyGpu) != 0;
    const bool aside = __atomic_load_n(&g_recorder.aside, __ATOMIC_ACQUIRE) != 0;
    uint32_t busy = 0;
    if (phase == Phase::kEnding) {
      if (g_recorder.recording) {
        Flush(0);
        if (g_recorder.by_hooks) {
          StopObserving(kLastWorkNs, true);
          RecordClock();
        } else {
          Flush(kFlushForced);
        }
      }
      // Says that nothing is missing at the end.
      Tell(GpuInfoKey::kPaused, "end");
      SetState(GpuState::kPaused);
      return EndRun(seen);
    }
    if (aside) {
      StopKinds(kAside);
      Unsubscribe();
      // Also where no window is open: one may open, or be over, before the program is done.
      TellPaused(kAside);
      if (__atomic_exchange_n(&g_recorder.aside_done, 1, __ATOMIC_RELEASE) == 0) FutexWake(&g_recorder.aside_done);
    } else if (armed && !g_recorder.recording) {
      if (!StartKinds() && !(FallBack() && StartKinds())) {
        SetState(GpuState::kOff);
        return EndRun(seen);
      }
      EnableUnifiedMemory();
    } else if (!armed) {
      StopKinds(kNoWindow);
      if (g_recorder.paused_for != nullptr) TellPaused(kNoWindow);
    } else if (g_recorder.recording) {
      EnableUnifiedMemory();
      busy = Flush(0);
    }
    if (g_recorder.by_hooks && !g_recorder.recording) ServeContexts();
    __atomic_store_n(&session.process->gpu_flush_done, seen, __ATOMIC_RELEASE);
    if (!exit_registered) {
      // Once more after cuInit: the driver registers its own end there, and exit handlers run in reverse.
      exit_registered = true;
      __cxa_atexit(Exit, nullptr, nullptr);
    }
    const bool over = FutexWait(requested, seen, busy >= kBusy ? kBusyPeriodNs : kFlushPeriodNs);
    if (over && busy < kBusy) g_recorder.pace.NextPeriod();
  }
}

// ---- the end

void End() {
  if (!IsOurProcess()) return;
  uint32_t running = static_cast<uint32_t>(Phase::kRunning);
  if (!__atomic_compare_exchange_n(&g_recorder.phase, &running, static_cast<uint32_t>(Phase::kEnding), false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
      running != static_cast<uint32_t>(Phase::kEnding)) {
    return;
  }
  WakeOwnThread();
  WaitUntil(&g_recorder.phase, static_cast<uint32_t>(Phase::kEnded));
}

void Exit(void*) {
  const int saved = errno;
  End();
  errno = saved;
}

int (*g_context_of_stream)(void* stream, void** context);

void NameStream(void* stream, const char* name) {
  if (__atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE) != static_cast<uint32_t>(Phase::kRunning)) return;
  ChunkWriter* const writer = IsOurProcess() ? g_recorder.bridge->writer_of_thread() : nullptr;
  if (writer == nullptr) return;
  if (g_recorder.by_hooks) return NameObservedStream(writer, stream, name);
  const Functions& cupti = g_recorder.library.functions;
  if (g_context_of_stream == nullptr || cupti.get_device == nullptr || cupti.get_stream == nullptr) return;
  // CUPTI is the program's for now.
  if (__atomic_load_n(&g_recorder.aside, __ATOMIC_ACQUIRE) != 0) return;
  const uint64_t silenced = g_recorder.bridge->silence();
  void* context = nullptr;
  uint32_t device = 0, number = 0;
  const bool known = g_context_of_stream(stream, &context) == 0 && cupti.get_device(context, &device) == kSuccess &&
                     cupti.get_stream(context, stream, 0, &number) == kSuccess;
  g_recorder.bridge->speak(silenced);
  if (!known) return;
  RecordName(g_recorder.session.segment, writer, GpuNameKind::kStream, StreamOnDevice(device, number), name,
             TextLength(name, kMaxName));
}

void* DriverFunction(const char* name) {
  constexpr int kNow = 2, kOnlyIfLoaded = 4;
  void* driver = dlopen("libcuda.so.1", kNow | kOnlyIfLoaded);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

int DriverVersion() {
  auto* const get = reinterpret_cast<int (*)(int*)>(DriverFunction("cuDriverGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == 0 ? version : 0;
}

void* Start(void*) {
  ChunkWriter* const writer = g_recorder.bridge->enter_thread();
  if (writer == nullptr) {
    AbandonObserving();
    SetState(GpuState::kOff);
    __atomic_store_n(&g_recorder.phase, static_cast<uint32_t>(Phase::kEnded), __ATOMIC_RELEASE);
    __atomic_store_n(&g_recorder.told, 1, __ATOMIC_RELEASE);
    FutexWake(&g_recorder.told);
    return nullptr;
  }
  g_recorder.writer = writer;
  for (uint32_t i = 0; i < g_recorder.pending_count; ++i) {
    const Recorder::Pending& pending = g_recorder.pending[i];
    TellAt(pending.ticks, pending.key, pending.text.get(), pending.text.length());
  }
  __atomic_store_n(&g_recorder.told, 1, __ATOMIC_RELEASE);
  FutexWake(&g_recorder.told);
  if (__atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(Phase::kEnded)) return nullptr;
  RecordClock();
  if (g_recorder.by_hooks) {
    BeginObserving(writer);
  } else {
    g_recorder.decoder.Start(g_recorder.session.segment, writer, g_recorder.library.version,
                             g_recorder.library.functions.get_callback_name);
  }
  return Run();
}

// True: there is a CUPTI, and it records if a window is open.
bool Prepare() {
  Library* const library = &g_recorder.library;
  const int driver = DriverVersion();
  g_context_of_stream = reinterpret_cast<int (*)(void*, void**)>(DriverFunction("cuStreamGetCtx"));
  const bool found = OpenLibrary(driver, library);
  for (uint32_t i = 0; i < library->tried_count; ++i) Tell(GpuInfoKey::kTried, library->tried[i]);
  if (!found) {
    Text<128> text;
    text.Add("no usable CUPTI was found");
    if (driver > 0) {
      text.Add(", none newer than the driver's CUDA ").Add(static_cast<uint64_t>(driver / 1000));
      text.Add(".").Add(static_cast<uint64_t>(driver % 1000 / 10));
    }
    TellUnavailable(text.get(), kSuccess);
    return false;
  }
  Tell(GpuInfoKey::kLibrary, library->path);
  Tell(GpuInfoKey::kVersions, Text<64>()
                                  .Add("cupti=")
                                  .Add(static_cast<uint64_t>(library->version))
                                  .Add(" driver=")
                                  .Add(static_cast<uint64_t>(driver)));
  if (!g_recorder.buffers.Start(library->version >= kVersionCuda129)) {
    TellUnavailable("no address space for CUPTI's buffers", kSuccess);
    return false;
  }
  if (g_recorder.bridge->set_yield(StepAside, ComeBack)) {
    g_recorder.aside = 1;
    TellPaused(kAside);
    return true;
  }
  return (g_recorder.session.segment.header->control & kFamilyGpu) == 0 || StartKinds();
}

}  // namespace

void StartRecording(const GpuBridge* bridge) {
  g_recorder.bridge = bridge;
  if (!bridge->get_session(&g_recorder.session)) return;
  const uint32_t options = g_recorder.session.segment.header->gpu_options;
  if ((options & (kGpuByCupti | kGpuByHooks)) == 0) return;
  const uint64_t silenced = bridge->silence();
  // On this thread: it is in the middle of cuInit, where CUPTI would have any other wait, and before the first context,
  // which kinds that are turned on later would miss.
  bool good = (options & kGpuByCupti) != 0 && Prepare();
  if (!good && (options & kGpuByCupti) == 0) Tell(GpuInfoKey::kByHooks, kHooksAskedFor);
  if (!good && FallBack()) {
    good = g_recorder.aside != 0 || (g_recorder.session.segment.header->control & kFamilyGpu) == 0 || StartKinds();
  }
  if (!good) SetState(GpuState::kOff);
  g_recorder.phase = static_cast<uint32_t>(good ? Phase::kRunning : Phase::kEnded);
  const bool started = bridge->start_thread(Start, nullptr);
  if (good && started) {
    __cxa_atexit(Exit, nullptr, nullptr);
    bridge->at_end(End);
    bridge->set_stream_namer(NameStream);
  } else if (started) {
    // A program that finds no GPU may end at once, and the reason with it.
    WaitUntil(&g_recorder.told, 1);
  } else if (good) {
    // Nobody would take what is delivered.
    if (g_recorder.by_hooks) {
      AbandonObserving();
    } else {
      DisableAll();
      Unsubscribe();
    }
    SetState(GpuState::kOff);
    g_recorder.phase = static_cast<uint32_t>(Phase::kEnded);
  }
  bridge->speak(silenced);
}

void StepAside() {
  if (__atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE) != static_cast<uint32_t>(Phase::kRunning)) return;
  __atomic_store_n(&g_recorder.aside_done, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&g_recorder.aside, 1, __ATOMIC_RELEASE);
  WakeOwnThread();
  WaitUntil(&g_recorder.aside_done, 1);
}

void ComeBack() {
  if (__atomic_exchange_n(&g_recorder.aside, 0, __ATOMIC_ACQ_REL) == 0) return;
  WakeOwnThread();
}

}  // namespace tbprof::cupti
