// SPDX-License-Identifier: Apache-2.0
//
// After the start, one thread of the library (tbprof's own thread) makes the CUPTI calls, so that two flushes never
// overlap, and converts the completed buffers to records. It wakes every 200 ms and on requests of the launcher
// (ProcessSlot).
//
// Rules: preload/RULES.md, except for the start, which runs inside the program's cuInit, and that thread, which waits.
#include "cupti/recorder.h"

#include <errno.h>

#include "cupti/activities.h"
#include "cupti/futex.h"
#include "cupti/name_record.h"
#include "cupti/observer.h"
#include "cupti/recorder_state.h"
#include "cupti/report.h"
#include "wire/raw.h"

extern "C" {
int __cxa_atexit(void (*routine)(void*), void* argument, void* object);
void* dlopen(const char* name, int mode);
void* dlsym(void* handle, const char* name);
}

namespace tbprof::cupti {

Recorder g_recorder;

namespace {

constexpr uint64_t kFlushPeriodNs = 200'000'000;
constexpr uint64_t kLongestInitNs = 30'000'000'000;
constexpr uint64_t kBusyPeriodNs = 5'000'000;
// An exit waits this long for the last flush: a lost device may never respond.
constexpr uint64_t kLastFlushNs = 2'000'000'000;
constexpr uint64_t kLastWorkNs = 1'500'000'000;
constexpr uint32_t kManyWithoutTimes = 1000;
constexpr char kSeveralCopies[] =
    "several copies of CUPTI are loaded, of which the driver serves the first that is used: that one is the program's";
constexpr char kRestart[] = "restart: CUPTI gave kernels no valid times, and was started again";
static_assert(HasPauseCause(kRestart, kPauseRestart));
constexpr size_t kBusyBytes = 8 * size_t{Buffers::kBufferBytes};

void WakeOwnThread() { cupti::WakeOwnThread(g_recorder.session.process); }

bool HasEnded() { return __atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(Phase::kEnded); }

// Waits until tbprof's own thread has set `*word` to `wanted`, or for kLastFlushNs.
void WaitUntil(uint32_t* word, uint32_t wanted) {
  FutexWaitFor(word, kLastFlushNs, [wanted](uint32_t value) { return value == wanted; });
}

// ---- on tbprof's own thread

void RecordClock() {
  if (g_recorder.writer == nullptr) return;
  // Keeps the narrowest of four readings: a reading that was interrupted is imprecise.
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

// A flush takes locks that the thread inside cuInit may hold. If the driver never reports the end of cuInit, flushes
// start after kLongestInitNs.
bool MayFlush() {
  if (!g_recorder.init_end_is_reported || __atomic_load_n(&g_recorder.init_is_over, __ATOMIC_ACQUIRE)) return true;
  return ReadMonotonic() - g_recorder.started_ns >= kLongestInitNs;
}

// True: many bytes were decoded, or observed work has not ended, so the next turn comes soon.
bool Flush(uint32_t flags) {
  RecordClock();
  if (g_recorder.by_hooks) return CollectWork() > 0;
  if (MayFlush()) {
    __atomic_store_n(&g_recorder.flushing, true, __ATOMIC_RELAXED);
    const Result result = g_recorder.library.functions.flush_all(flags);
    __atomic_store_n(&g_recorder.flushing, false, __ATOMIC_RELAXED);
    ReportFlush(result);
  }
  const size_t bytes = DecodeFilled();
  RecordClock();
  ReportLosses();
  return bytes >= kBusyBytes;
}

void SetRecording() {
  g_recorder.recording = true;
  RecordClock();
  ReportRecording();
}

// False: the program uses CUPTI.
bool Hold() {
  CuptiUse* const use = g_recorder.bridge->cupti_use;
  if (use->IsHeld()) return true;
  const CuptiShare share = use->TryHold(ReadMonotonic());
  if (share != CuptiShare::kNone) g_recorder.share = share;
  return share != CuptiShare::kNone;
}

void Release() {
  CuptiUse* const use = g_recorder.bridge->cupti_use;
  use->Release();
  FutexWake(use->wait_word());
}

// Records by hooks from now on. False: the session has no hooks, or the driver lacks functions for them.
bool FallBack() {
  if (!MayObserve()) return false;
  // CUPTI's clock may be in records already. Hooks continue on it: all GPU records of a process use one clock.
  uint64_t gpu = 0;
  if (g_recorder.library.functions.get_timestamp != nullptr &&
      g_recorder.library.functions.get_timestamp(&gpu) == kSuccess) {
    g_recorder.hooks_clock_offset = gpu - ReadMonotonic();
  }
  if (!PrepareObserving(g_recorder.bridge, g_recorder.session, g_recorder.hooks_clock_offset)) {
    Report(GpuInfoKey::kUnavailable, "device activity cannot be recorded by hooks either: the driver lacks events");
    return false;
  }
  g_recorder.by_hooks = true;
  if ((g_recorder.session.segment.header->gpu_options & kGpuUnifiedMemory) != 0) {
    Report(GpuInfoKey::kMissingKind, "unified memory: only CUPTI reports it");
  }
  // The program's own CUPTI client would record the driver calls that tbprof makes.
  g_recorder.bridge->set_yield(Suspend);
  if (!Hold()) ReportPaused(kAside);
  if (g_recorder.writer != nullptr) BeginObserving(g_recorder.writer);
  return true;
}

// Starts to record. False: recording is impossible.
bool StartKinds() {
  if (g_recorder.by_hooks) {
    StartObserving();
    SetRecording();
    return true;
  }
  if (!IsAttached() && !Attach()) {
    Detach();
    return false;
  }
  if (!EnableAll()) {
    DisableAll();
    Detach();
    ReportUnavailable("device activity cannot be recorded: CUPTI refuses to record kernels", kSuccess);
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
    FlushFinished();
    Flush(kFlushForced);
  }
  RecordClock();
  g_recorder.recording = false;
  ReportPaused(why);
}

// Stops and releases CUPTI: a call of the program is waiting for it.
void GiveWay() {
  StopKinds(kAside);
  if (IsAttached()) {
    if (g_recorder.buffers.lent() != 0) FlushUntilReturned();
    Detach();
  }
  // Also reported while no window is open: one may open or end before the program has finished with CUPTI.
  ReportPaused(kAside);
  Release();
}

void Exit(void*);

void* EndRun(uint32_t seen) {
  if (g_recorder.by_hooks) AbandonObserving();
  __atomic_store_n(&g_recorder.session.process->gpu_flush_done, seen, __ATOMIC_RELEASE);
  __atomic_store_n(&g_recorder.phase, static_cast<uint32_t>(Phase::kEnded), __ATOMIC_RELEASE);
  FutexWake(&g_recorder.phase);
  // tbprof stays attached unless the program calls CUPTI (Suspend): a process that ends has no time to detach.
  if (!IsAttached()) {
    Release();
  } else {
    FutexWake(g_recorder.bridge->cupti_use->wait_word());
  }
  return nullptr;
}

void* EndOfProcess(uint32_t seen) {
  if (g_recorder.recording) {
    Flush(0);
    if (g_recorder.by_hooks) {
      StopObserving(kLastWorkNs, true);
      RecordClock();
    } else {
      Flush(kFlushForced);
      ReportUnifiedMemory();
    }
  }
  if (g_recorder.paused_for == kAside) ReportPaused(kAside);
  // A pause with this reason is a gap only if the process lives on.
  Report(GpuInfoKey::kPaused, kPauseEnd);
  SetState(GpuState::kPaused);
  return EndRun(seen);
}

// Disables and enables the kinds if many kernels have no valid times: CUPTI then starts anew.
void AnswerInvalidTimes() {
  Decoder& decoder = g_recorder.decoder;
  if (g_recorder.by_hooks || decoder.kernels_without_times() < kManyWithoutTimes) return;
  decoder.ForgetKernelsWithoutTimes();
  // If the program sets its own clock, CUPTI 12.6 U2 to 13.0 gives kernels no valid times, and a restart does not help.
  if (g_recorder.bridge->cupti_use->HasClock()) return;
  switch (g_recorder.restarts.OnInvalidTimes()) {
    case Restarts::Answer::kNothing:
    // The next turn of Run stops the recording, unless a window is open.
    case Restarts::Answer::kLimit:
      return;
    case Restarts::Answer::kRestart:
      StopKinds(kRestart);
      // A failure is reported, and the next turn of Run tries again.
      if (!StartKinds()) ReportPaused(kRestart);
  }
}

// The reason why nothing may be recorded now; null: it may.
const char* WhyNot() {
  const SegmentHeader& header = *g_recorder.session.segment.header;
  if ((__atomic_load_n(&header.control, __ATOMIC_RELAXED) & kFamilyGpu) == 0) {
    g_recorder.restarts.OnDisarmed();
    return kNoWindow;
  }
  return g_recorder.restarts.MayRecord(__atomic_load_n(&header.gpu_windows, __ATOMIC_ACQUIRE)) ? nullptr : kLimited;
}

// Flushes on request, and five times a second; between flushes, decodes the buffers that CUPTI completes by itself.
// True: more is expected soon.
bool Collect(bool asked, uint64_t* last_flush_ns) {
  const uint64_t now = ReadMonotonic();
  const bool due = now - *last_flush_ns >= kFlushPeriodNs;
  if (!asked && !due && !g_recorder.by_hooks) return DecodeFilled() >= kBusyBytes;
  if (due) {
    *last_flush_ns = now;
    g_recorder.pace.NextPeriod();
  }
  EnableUnifiedMemory();
  const bool busy = Flush(0);
  AnswerInvalidTimes();
  return busy;
}

uint64_t WaitNs(bool busy, uint64_t last_flush_ns) {
  if (busy) return kBusyPeriodNs;
  const uint64_t since = ReadMonotonic() - last_flush_ns;
  return since >= kFlushPeriodNs ? kFlushPeriodNs : kFlushPeriodNs - since;
}

void* Run() {
  const GpuSession& session = g_recorder.session;
  uint32_t* const requested = &session.process->gpu_flush_requested;
  bool exit_registered = false;
  uint64_t last_flush_ns = 0;
  uint32_t flushed = __atomic_load_n(requested, __ATOMIC_ACQUIRE);
  for (;;) {
    const uint32_t seen = __atomic_load_n(requested, __ATOMIC_ACQUIRE);
    const auto phase = static_cast<Phase>(__atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE));
    if (!IsOurProcess()) return nullptr;
    const char* const why_not = WhyNot();
    bool busy = false;
    if (phase == Phase::kEnding) return EndOfProcess(seen);
    if (IsHeld() && g_recorder.bridge->cupti_use->HasCall()) GiveWay();
    if (!Hold()) {
      ReportPaused(kAside);
      DiscardFilled();
    } else if (why_not == nullptr && !g_recorder.recording) {
      if (!StartKinds() && !(FallBack() && StartKinds())) {
        SetState(GpuState::kOff);
        return EndRun(seen);
      }
      EnableUnifiedMemory();
    } else if (why_not != nullptr) {
      StopKinds(why_not);
      if (g_recorder.paused_for != nullptr) ReportPaused(why_not);
    } else {
      busy = Collect(seen != flushed, &last_flush_ns);
      flushed = seen;
    }
    if (g_recorder.by_hooks && !g_recorder.recording) ServeContexts();
    __atomic_store_n(&session.process->gpu_flush_done, seen, __ATOMIC_RELEASE);
    if (!exit_registered) {
      // Registered once more after cuInit: the driver registers its own exit handler there, and handlers run in
      // reverse.
      exit_registered = true;
      __cxa_atexit(Exit, nullptr, nullptr);
    }
    FutexWait(requested, seen, WaitNs(busy, last_flush_ns));
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
  if (!IsHeld()) return;
  const uint64_t bypass = g_recorder.bridge->begin_bypass();
  void* context = nullptr;
  uint32_t device = 0, number = 0;
  const bool known = g_context_of_stream(stream, &context) == 0 && cupti.get_device(context, &device) == kSuccess &&
                     cupti.get_stream(context, stream, 0, &number) == kSuccess;
  g_recorder.bridge->end_bypass(bypass);
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
    __atomic_store_n(&g_recorder.pending_written, 1, __ATOMIC_RELEASE);
    FutexWake(&g_recorder.pending_written);
    return nullptr;
  }
  g_recorder.writer = writer;
  __atomic_store_n(&g_recorder.own_thread, __builtin_thread_pointer(), __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < g_recorder.pending_count; ++i) {
    const Recorder::Pending& pending = g_recorder.pending[i];
    ReportAt(pending.ticks, pending.key, pending.text.get(), pending.text.length());
  }
  __atomic_store_n(&g_recorder.pending_written, 1, __ATOMIC_RELEASE);
  FutexWake(&g_recorder.pending_written);
  if (__atomic_load_n(&g_recorder.phase, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(Phase::kEnded)) return nullptr;
  RecordClock();
  if (g_recorder.by_hooks) {
    BeginObserving(writer);
  } else {
    g_recorder.decoder.Start(g_recorder.session.segment, writer, g_recorder.library.version,
                             g_recorder.library.functions.get_callback_name);
    // The range of valid times must begin before the first kernel.
    ReadTimeRange();
  }
  return Run();
}

void ReportUsedLibrary(int driver) {
  const Library& library = g_recorder.library;
  Report(GpuInfoKey::kLibrary, library.path);
  Report(GpuInfoKey::kVersions, Text<64>()
                                    .Add("cupti=")
                                    .Add(static_cast<uint64_t>(library.version))
                                    .Add(" driver=")
                                    .Add(static_cast<uint64_t>(driver)));
  g_recorder.bridge->cupti_use->SetOwn(reinterpret_cast<void*>(library.functions.subscribe),
                                       reinterpret_cast<void*>(library.functions.register_callbacks));
}

// True: a usable CUPTI was found, and it records if a window is open and the program does not use it.
bool Prepare() {
  Library* const library = &g_recorder.library;
  const int driver = DriverVersion();
  g_context_of_stream = reinterpret_cast<int (*)(void*, void**)>(DriverFunction("cuStreamGetCtx"));
  if (MayObserve() && LoadedCopies() > 1) {
    ReportUnavailable(kSeveralCopies, kSuccess);
    return false;
  }
  const bool found = OpenLibrary(driver, library);
  for (uint32_t i = 0; i < library->tried_count; ++i) Report(GpuInfoKey::kTried, library->tried[i]);
  if (!found) {
    Text<128> text;
    text.Add("no usable CUPTI was found");
    if (driver > 0) {
      text.Add(", none newer than the driver's CUDA ").Add(static_cast<uint64_t>(driver / 1000));
      text.Add(".").Add(static_cast<uint64_t>(driver % 1000 / 10));
    }
    ReportUnavailable(text.get(), kSuccess);
    return false;
  }
  ReportUsedLibrary(driver);
  if (!g_recorder.buffers.Start(library->version >= kVersionCuda129)) {
    ReportUnavailable("no address space for CUPTI's buffers", kSuccess);
    return false;
  }
  g_recorder.bridge->set_yield(Suspend);
  if (!Hold()) {
    ReportPaused(kAside);
    return true;
  }
  return (g_recorder.session.segment.header->control & kFamilyGpu) == 0 || StartKinds();
}

// Before CUDA 12.9 tbprof cannot refuse CUPTI a buffer: if the program recorded without registered buffers, CUPTI has
// buffers of tbprof. CUPTI has no buffer of the program then, so a flush takes nothing from the program.
void TakeBuffersBack() {
  void *requested, *completed;
  auto* const registrar = reinterpret_cast<void*>(g_recorder.library.functions.register_callbacks);
  if (g_recorder.by_hooks || g_recorder.buffers.lent() == 0 ||
      g_recorder.bridge->cupti_use->GetBufferCallbacks(registrar, &requested, &completed)) {
    return;
  }
  const uint64_t bypass = g_recorder.bridge->begin_bypass();
  g_recorder.library.functions.flush_all(kFlushForced);
  g_recorder.bridge->end_bypass(bypass);
}

}  // namespace

void StartRecording(const GpuBridge* bridge) {
  g_recorder.bridge = bridge;
  if (!bridge->get_session(&g_recorder.session)) return;
  const uint32_t options = g_recorder.session.segment.header->gpu_options;
  if ((options & (kGpuByCupti | kGpuByHooks)) == 0) return;
  g_recorder.started_ns = ReadMonotonic();
  const uint64_t bypass = bridge->begin_bypass();
  // Runs on this thread, which is inside cuInit: CUPTI would make any other thread wait. It runs before the first
  // context is created: kinds that are enabled later would miss that context.
  bool good = (options & kGpuByCupti) != 0 && Prepare();
  if (!good && (options & kGpuByCupti) == 0) Report(GpuInfoKey::kByHooks, kHooksAskedFor);
  if (!good && FallBack()) {
    good = !IsHeld() || (g_recorder.session.segment.header->control & kFamilyGpu) == 0 || StartKinds();
  }
  if (!good) SetState(GpuState::kOff);
  g_recorder.phase = static_cast<uint32_t>(good ? Phase::kRunning : Phase::kEnded);
  const bool started = bridge->start_thread(Start, nullptr);
  if (good && started) {
    __cxa_atexit(Exit, nullptr, nullptr);
    bridge->at_end(End);
    bridge->set_stream_namer(NameStream);
  } else if (started) {
    // Waits until the reason is recorded: a program that finds no GPU may end at once, and the reason would be lost.
    WaitUntil(&g_recorder.pending_written, 1);
  } else if (good) {
    // No thread would read the completed buffers.
    if (g_recorder.by_hooks) {
      AbandonObserving();
    } else {
      DisableAll();
      Detach();
    }
    SetState(GpuState::kOff);
    g_recorder.phase = static_cast<uint32_t>(Phase::kEnded);
  }
  if (!good || !started) Release();
  bridge->end_bypass(bypass);
}

void Suspend() {
  if (!IsOurProcess()) return;
  CuptiUse* const use = g_recorder.bridge->cupti_use;
  if (!use->IsHeld()) return TakeBuffersBack();
  WakeOwnThread();
  FutexWaitFor(use->wait_word(), kLastFlushNs, [](uint32_t word) { return !CuptiUse::IsHeldIn(word) || HasEnded(); });
  if (!HasEnded() || __atomic_exchange_n(&g_recorder.abandoned, 1, __ATOMIC_ACQ_REL) != 0) return;
  // tbprof's own thread has ended, and an exit handler of the program uses CUPTI: this thread detaches.
  const uint64_t bypass = g_recorder.bridge->begin_bypass();
  if (IsAttached()) {
    DisableAll();
    g_recorder.library.functions.flush_all(kFlushForced);
    Detach();
  }
  Release();
  g_recorder.bridge->end_bypass(bypass);
}

}  // namespace tbprof::cupti
