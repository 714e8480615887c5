// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/engine.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "tests/sim/modes.h"

namespace tbprof::sim {
namespace {

// Rates of an H200 in a PCIe 5 machine, bytes per nanosecond.
constexpr double kToDevice = 55.0;
constexpr double kFromDevice = 53.0;
constexpr double kPageable = 12.0;
constexpr double kWithinDevice = 1900.0;
constexpr double kPeer = 390.0;
constexpr double kSet = 3000.0;
constexpr int64_t kCopySetupNs = 900;

// nvidia-smi's stream numbers: the legacy stream of a context is 7, the first created one 13.
constexpr uint32_t kLegacyStreamId = 7;
constexpr uint32_t kFirstStreamId = 13;

void RaiseTo(std::atomic<int64_t>& value, int64_t at_least) {
  int64_t seen = value.load(std::memory_order_relaxed);
  while (seen < at_least && !value.compare_exchange_weak(seen, at_least)) {
  }
}

constexpr int kToDeviceEngine = 0;
constexpr int kFromDeviceEngine = 1;
constexpr int kWithinEngine = 2;

int EngineOf(uint8_t kind) {
  switch (kind) {
    case 1:  // HTOD
    case 9:  // HTOH
      return kToDeviceEngine;
    case 2:  // DTOH
      return kFromDeviceEngine;
    default:
      return kWithinEngine;
  }
}

// A copy engine does one copy at a time.
int64_t TakeCopyEngine(std::atomic<int64_t>& free_at, int64_t earliest, int64_t duration) {
  int64_t seen = free_at.load();
  for (;;) {
    const int64_t start = std::max(seen, earliest);
    if (free_at.compare_exchange_weak(seen, start + duration)) return start;
  }
}

void RunSet(const Op& op) {
  const auto& set = op.set;
  for (size_t row = 0; row < set.height; ++row) {
    char* at = set.destination + row * set.pitch;
    if (set.element == 1) {
      memset(at, static_cast<int>(op.work.set.value), set.width);
    } else {
      for (size_t i = 0; i < set.width; ++i) memcpy(at + i * set.element, &op.work.set.value, set.element);
    }
  }
}

// ---- start of the driver

enum class InitState : uint32_t { kNone, kRunning, kDone };
std::atomic<InitState> init_state{InitState::kNone};
std::atomic<int> init_thread{0};
Lock init_lock;

void Describe(DeviceDescription* out, int physical) {
  out->ordinal = static_cast<uint32_t>(physical);
  snprintf(out->name, sizeof(out->name), "NVIDIA H200 (simulated)");
  static constexpr unsigned char kUuid[16] = {0x5b, 0x1d, 0xc0, 0xde, 0x74, 0x62, 0x50, 0x72,
                                              0x8f, 0x00, 0x51, 0x4d, 0x00, 0x00, 0x00, 0x00};
  memcpy(out->uuid.bytes, kUuid, sizeof(kUuid));
  out->uuid.bytes[15] = static_cast<char>(physical);
  out->memory_bytes = static_cast<uint64_t>(mode::memory_mb()) << 20;
  out->processors = 132;
  out->major = 9;
  out->minor = 0;
  out->clock_khz = 1980000;
  out->l2_bytes = 60u << 20;
  out->bandwidth_kb = 4917504000;
  if (mode::mig() == 0) return;
  snprintf(out->name, sizeof(out->name), "NVIDIA H200 MIG 1g.18gb (simulated)");
  out->memory_bytes /= 8;
  out->bandwidth_kb /= 8;
  out->processors = 16;
}

bool UuidHasPrefix(const CUuuid& uuid, const char* text, size_t length) {
  char full[48];
  const auto* b = reinterpret_cast<const unsigned char*>(uuid.bytes);
  snprintf(full, sizeof(full), "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           mode::mig() != 0 ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
           b[12], b[13], b[14], b[15]);
  return length > 4 && strncmp(full, text, length) == 0;
}

// The order of CUDA_VISIBLE_DEVICES; the list ends at the first entry that is no device, as the driver's does.
std::vector<int> VisibleDevices() {
  const int count = static_cast<int>(mode::Number("CUDASIM_GPUS", 1));
  std::vector<int> visible;
  const char* list = getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  while (*list != '\0') {
    const size_t length = strcspn(list, ",");
    int found = -1;
    char* end = nullptr;
    const long number = strtol(list, &end, 10);
    if (end == list + length && end != list) {
      if (number >= 0 && number < count) found = static_cast<int>(number);
    } else {
      for (int i = 0; i < count && found < 0; ++i) {
        DeviceDescription description{};
        Describe(&description, i);
        if (UuidHasPrefix(description.uuid, list, length)) found = i;
      }
    }
    if (found < 0 || std::find(visible.begin(), visible.end(), found) != visible.end()) break;
    visible.push_back(found);
    list += length;
    if (*list == ',') ++list;
  }
  return visible;
}

// As the driver does it: at the first cuInit, before anything exists. A library that cannot be loaded is passed over.
void LoadInjection() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0' || mode::no_injection() != 0) return;
  void* library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    if (getenv("CUDASIM_VERBOSE") != nullptr) fprintf(stderr, "simulator: %s\n", dlerror());
    return;
  }
  auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize == nullptr || initialize() == 0) dlclose(library);
}

void AtExit() { engine().deinitialised.store(true); }

CUresult Start() {
  Engine& e = engine();
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  auto* alive = static_cast<std::atomic<uint32_t>*>(page);
  alive->store(1);
  e.alive = alive;
  e.submit_ns = mode::submit_ns();
  e.kernel_ns = mode::Number("CUDASIM_KERNEL_NS", mode::kernel_ns());
  e.queue_depth = static_cast<uint64_t>(std::max<int64_t>(mode::queue_depth(), 1));
  atexit(AtExit);
  LoadInjection();
  while (mode::init_hangs() != 0) pause();
  if (mode::init_ms() != 0) WaitUntil(Now() + mode::init_ms() * 1000000);
  if (mode::init_crashes() != 0) raise(SIGSEGV);
  if (mode::init_fails() != 0) return static_cast<CUresult>(mode::init_fails());
  if (mode::no_device() != 0) return CUDA_ERROR_NO_DEVICE;
  for (const int physical : VisibleDevices()) {
    auto* device = new Device;
    device->ordinal = static_cast<int>(e.devices.size());
    device->physical = physical;
    Describe(&device->description, physical);
    device->description.ordinal = static_cast<uint32_t>(device->ordinal);
    device->default_pool = device->pool = NewPool(device);
    e.devices.push_back(device);
  }
  return e.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

// For calls that wait for the device. They hold no lock here: who handles the signal may never return.
void WaitForDevice(int64_t time) {
  if (mode::wait_signal() != 0 && time > Now()) raise(SIGUSR1);
  WaitUntil(time);
}

}  // namespace

// ---- state

Engine& engine() {
  static Engine* the_engine = new Engine;
  return *the_engine;
}

CUresult Init() {
  Engine& e = engine();
  if (e.initialised.load()) {
    if (e.deinitialised.load()) return CUDA_ERROR_DEINITIALIZED;
    return e.alive->load() == 1 ? e.init_result : CUDA_ERROR_NOT_INITIALIZED;
  }
  // The injected library may itself come back here.
  const int self = static_cast<int>(syscall(SYS_gettid));
  if (init_thread.load() == self) return CUDA_SUCCESS;
  Guard guard(init_lock);
  if (e.initialised.load()) return e.init_result;
  init_thread.store(self);
  e.init_result = Start();
  e.initialised.store(true);
  init_thread.store(0);
  if (e.init_result == CUDA_SUCCESS) {
    ResourceEvent event{};
    event.what = Resource::kInitFinished;
    Report(event);
  }
  return e.init_result;
}

CUresult Usable() {
  Engine& e = engine();
  if (!e.initialised.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  if (e.alive->load(std::memory_order_relaxed) != 1) return CUDA_ERROR_NOT_INITIALIZED;
  if (e.deinitialised.load(std::memory_order_relaxed)) return CUDA_ERROR_DEINITIALIZED;
  return e.init_result == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int DriverVersion() {
  static const int version = static_cast<int>(mode::Number("CUDASIM_DRIVER_VERSION", kLibraryVersion));
  return version;
}

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

CUresult CheckFault(CUcontext context) {
  context = Root(context);
  const int code = context->fault_code.load(std::memory_order_acquire);
  if (code == 0 || Now() < context->fault_at.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  return static_cast<CUresult>(code);
}

CUresult CurrentContext(CUcontext* out) {
  if (const CUresult result = Usable(); result != CUDA_SUCCESS) return result;
  const ThreadState& state = thread_state();
  if (state.depth == 0 || state.stack[state.depth - 1] == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CUcontext context = state.stack[state.depth - 1];
  if (!context->alive.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *out = context;
  return CheckFault(context);
}

uint32_t Correlation() {
  const ApiCall* call = thread_state().call;
  return call == nullptr ? 0 : call->correlation;
}

void Report(const ResourceEvent& event) {
  if (!Wants(kWantsResources)) return;
  if (const Hooks* hooks = TheHooks()) hooks->resource(event);
}

// ---- contexts and streams

CUcontext NewContext(Device* device, unsigned flags, bool primary, CUgreenCtx green) {
  Engine& e = engine();
  auto* context = new CUctx_st{};
  context->magic = Magic::kContext;
  context->id = e.next_context.fetch_add(1);
  context->device = device;
  context->flags = flags;
  context->primary = primary;
  context->green = green;
  if (green != nullptr) context->parent = device->primary;
  context->next_stream_id = kFirstStreamId;
  context->alive.store(true);
  context->legacy = NewStream(context, CU_STREAM_DEFAULT, 0);
  {
    Guard guard(e.lock);
    e.contexts.push_back(context);
  }
  ResourceEvent event{};
  event.what = Resource::kContextCreated;
  event.context = context;
  event.context_id = context->id;
  event.device_id = static_cast<uint32_t>(device->ordinal);
  event.stream_id = context->legacy->id;
  event.correlation = Correlation();
  event.parent_id = green == nullptr ? 0 : context->parent->id;
  event.processors = green == nullptr ? 0 : green->processors;
  Report(event);
  event.what = Resource::kStreamCreated;
  event.stream = context->legacy;
  Report(event);
  return context;
}

// The green ones among all contexts that belong to this one.
static std::vector<CUcontext> GreenOnesOf(CUcontext context) {
  std::vector<CUcontext> found;
  if (!context->primary) return found;
  Guard guard(engine().lock);
  for (CUcontext one : engine().contexts) {
    if (one->parent == context) found.push_back(one);
  }
  return found;
}

void DestroyContext(CUcontext context) {
  if (!context->alive.load()) return;
  for (CUcontext green : GreenOnesOf(context)) DestroyContext(green);
  if (CheckFault(context) == CUDA_SUCCESS) SynchronizeContext(context);
  ResourceEvent event{};
  event.what = Resource::kContextDestroyStarting;
  event.context = context;
  event.context_id = context->id;
  event.device_id = static_cast<uint32_t>(context->device->ordinal);
  event.correlation = Correlation();
  Report(event);
  context->alive.store(false);
  {
    Guard guard(context->lock);
    for (CUstream stream : context->streams) stream->magic = Magic::kDead;
    context->streams.clear();
    context->thread_streams.clear();
  }
  ForgetMemoryOf(context);
  Engine& e = engine();
  Guard guard(e.lock);
  e.contexts.erase(std::remove(e.contexts.begin(), e.contexts.end(), context), e.contexts.end());
}

CUstream NewStream(CUcontext context, unsigned flags, int priority) {
  auto* stream = new CUstream_st{};
  stream->magic = Magic::kStream;
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->legacy = context->legacy == nullptr;
  stream->blocking = !stream->legacy && (flags & CU_STREAM_NON_BLOCKING) == 0;
  stream->ring = new int64_t[engine().queue_depth]{};
  {
    Guard guard(context->lock);
    stream->id = stream->legacy ? kLegacyStreamId : context->next_stream_id++;
    context->streams.push_back(stream);
  }
  if (!stream->legacy) {
    ResourceEvent event{};
    event.what = Resource::kStreamCreated;
    event.context = context;
    event.stream = stream;
    event.context_id = context->id;
    event.device_id = static_cast<uint32_t>(context->device->ordinal);
    event.stream_id = stream->id;
    event.stream_flags = flags;
    event.priority = priority;
    event.correlation = Correlation();
    Report(event);
  }
  return stream;
}

// The work on it goes on to its end: only the handle is gone.
void DestroyStream(CUstream stream) {
  CUcontext context = stream->context;
  ResourceEvent event{};
  event.what = Resource::kStreamDestroyStarting;
  event.context = context;
  event.stream = stream;
  event.context_id = context->id;
  event.device_id = static_cast<uint32_t>(context->device->ordinal);
  event.stream_id = stream->id;
  event.stream_flags = stream->flags;
  event.correlation = Correlation();
  Report(event);
  Guard guard(context->lock);
  stream->magic = Magic::kDead;
  RaiseTo(context->blocking_end, stream->blocking ? stream->end.load() : 0);
  if (stream->submitted.load() == stream->resolved.load()) {
    context->streams.erase(std::remove(context->streams.begin(), context->streams.end(), stream),
                           context->streams.end());
    delete[] stream->ring;
    stream->ring = nullptr;
  }
}

CUresult FindStream(CUcontext context, CUstream handle, CUstream* out) {
  ThreadState& state = thread_state();
  if (handle == nullptr) handle = state.per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) {
    *out = context->legacy;
    return CUDA_SUCCESS;
  }
  if (handle != CU_STREAM_PER_THREAD) {
    if (handle->magic != Magic::kStream) return CUDA_ERROR_INVALID_HANDLE;
    *out = handle;
    return CUDA_SUCCESS;
  }
  if (state.stream_context != context || state.stream->magic != Magic::kStream) {
    const int thread = static_cast<int>(syscall(SYS_gettid));
    CUstream stream = nullptr;
    {
      Guard guard(context->lock);
      const auto found = context->thread_streams.find(thread);
      if (found != context->thread_streams.end()) stream = found->second;
    }
    if (stream == nullptr) {
      stream = NewStream(context, CU_STREAM_DEFAULT, 0);
      stream->per_thread = true;
      Guard guard(context->lock);
      context->thread_streams[thread] = stream;
    }
    state.stream_context = context;
    state.stream = stream;
  }
  *out = state.stream;
  return CUDA_SUCCESS;
}

CUresult FindStream(CUstream handle, CUstream* out) {
  CUcontext context = nullptr;
  if (const CUresult result = CurrentContext(&context); result != CUDA_SUCCESS) return result;
  const CUresult result = FindStream(context, handle, out);
  if (result != CUDA_SUCCESS) return result;
  return (*out)->context == context ? CUDA_SUCCESS : CheckFault((*out)->context);
}

// ---- work

Op NewOp(WorkKind kind) {
  Op op;
  memset(static_cast<void*>(&op), 0, sizeof(op));
  op.work.kind = kind;
  return op;
}

void RunCopy(const Copy& copy) {
  if (copy.height == 1 && copy.depth == 1) {
    memmove(copy.destination, copy.source, copy.width);
    return;
  }
  for (size_t z = 0; z < copy.depth; ++z) {
    for (size_t y = 0; y < copy.height; ++y) {
      memmove(copy.destination + z * copy.destination_slice + y * copy.destination_pitch,
              copy.source + z * copy.source_slice + y * copy.source_pitch, copy.width);
    }
  }
}

int64_t CopyDuration(const Work& work, bool pageable) {
  double rate = kWithinDevice;
  switch (work.copy.kind) {
    case 1:
      rate = pageable ? kPageable : kToDevice;
      break;
    case 2:
      rate = pageable ? kPageable : kFromDevice;
      break;
    case 9:
      rate = kPageable;
      break;
    case 10:
      rate = kPeer;
      break;
    default:
      break;
  }
  return kCopySetupNs + static_cast<int64_t>(static_cast<double>(work.copy.bytes) / rate);
}

void Resolve(CUstream stream, Op& op, int64_t now, std::vector<Work>* nodes) {
  CUcontext context = stream->context;
  Engine& e = engine();
  int64_t free_at = stream->end.load(std::memory_order_relaxed);
  if (stream->blocking) free_at = std::max(free_at, context->legacy_end.load(std::memory_order_relaxed));
  if (stream->legacy) free_at = std::max(free_at, context->blocking_end.load(std::memory_order_relaxed));
  const int64_t begin = std::max(free_at, now + e.submit_ns);
  op.work.submitted = std::min(now + e.submit_ns / 2, begin);
  op.work.start = begin;
  op.work.end = begin;
  switch (op.work.kind) {
    case WorkKind::kKernel:
      op.work.end = begin + op.duration;
      if (op.fault != CUDA_SUCCESS) {
        int none = 0;
        Root(context)->fault_at.store(op.work.end);
        Root(context)->fault_code.compare_exchange_strong(none, op.fault);
      }
      break;
    case WorkKind::kMemcpy: {
      const int copy_engine = EngineOf(op.work.copy.kind);
      op.work.start = copy_engine == kWithinEngine
                          ? begin
                          : TakeCopyEngine(context->device->copy_engine[copy_engine], begin, op.duration);
      op.work.end = op.work.start + op.duration;
      if (op.work.copy.count == 1) {
        RunCopy(op.copy);
      } else {
        for (uint64_t i = 0; i < op.work.copy.count; ++i) RunCopy(op.batch.parts[i]);
      }
      break;
    }
    case WorkKind::kMemset:
      op.work.end = begin + kCopySetupNs + static_cast<int64_t>(static_cast<double>(op.work.set.bytes) / kSet);
      RunSet(op);
      break;
    case WorkKind::kEventRecord:
      op.work.start = op.work.end = std::max(free_at, now);
      op.event->done_at.store(op.work.end);
      op.event->sync_id.store(op.work.event.sync_id);
      op.event->recorded.store(true);
      break;
    case WorkKind::kEventWait:
      op.work.start = op.work.end = std::max(free_at, op.event->done_at.load());
      break;
    case WorkKind::kGraph:
      ResolveGraph(stream, op, begin, nodes);
      break;
    case WorkKind::kPrefetch:
      op.work.end = begin + op.duration;
      break;
    case WorkKind::kFree:
      op.work.start = op.work.end = std::max(free_at, now);
      Free(op.free, true);
      break;
    default:
      op.work.start = op.work.end = std::max(free_at, now);
      break;
  }
  stream->end.store(op.work.end, std::memory_order_release);
  if (stream->blocking) RaiseTo(context->blocking_end, op.work.end);
  if (stream->legacy) RaiseTo(context->legacy_end, op.work.end);
}

void Report(const Op& op, const std::vector<Work>& nodes) {
  if (!Wants(kWantsWork)) return;
  const Hooks* hooks = TheHooks();
  if (hooks == nullptr) return;
  if (op.work.kind != WorkKind::kGraph || Wants(kWantsGraphTrace)) hooks->work(op.work);
  for (const Work& work : nodes) hooks->work(work);
}

CUresult Submit(CUstream stream, Op& op) {
  Capture* capture = stream->capture.load(std::memory_order_relaxed);
  if (capture != nullptr) return CaptureOp(stream, op);
  CUcontext context = stream->context;
  if (context->captures.load(std::memory_order_relaxed) != 0) {
    // An event of a capturing stream draws this one in; the legacy stream would wait for the capture itself.
    if (op.work.kind == WorkKind::kEventWait && op.event->capture != nullptr) return CaptureOp(stream, op);
    if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (const CUresult result = CheckFault(context); result != CUDA_SUCCESS) return result;
  Engine& e = engine();
  op.work.device = static_cast<uint32_t>(context->device->ordinal);
  op.work.context = context->id;
  op.work.stream = stream->id;
  op.work.channel = 1 + stream->id % 8;
  op.work.correlation = Correlation();
  int64_t now = Now();
  op.work.queued = now;
  std::vector<Work> nodes;
  for (;;) {
    const bool unknown_end = op.work.kind == WorkKind::kHostFunction || context->deferred.load() != 0 ||
                             (op.work.kind == WorkKind::kEventWait && op.event->unresolved.load() != 0);
    if (unknown_end) return SubmitDeferred(stream, op);
    int64_t room_at = 0;
    {
      Guard guard(stream->lock);
      if (stream->ring == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      int64_t& slot = stream->ring[stream->launches % e.queue_depth];
      if (slot <= now) {
        Resolve(stream, op, now, &nodes);
        slot = op.work.end;
        ++stream->launches;
      } else {
        room_at = slot;
      }
    }
    if (room_at == 0) break;
    // The driver's queue is full: the caller waits for the device.
    WaitForDevice(room_at);
    const int64_t then = now;
    now = Now();
    if (Wants(kWantsOverhead) && TheHooks() != nullptr) {
      const Overhead overhead = {6u << 16, then, now, op.work.correlation, static_cast<uint32_t>(syscall(SYS_gettid))};
      TheHooks()->overhead(overhead);
    }
  }
  Report(op, nodes);
  return CUDA_SUCCESS;
}

int64_t StreamEnd(CUstream stream) {
  const int64_t end = stream->end.load(std::memory_order_acquire);
  return stream->legacy ? std::max(end, stream->context->blocking_end.load()) : end;
}

bool StreamIdle(CUstream stream) {
  if (stream->submitted.load() != stream->resolved.load()) return false;
  if (stream->legacy && stream->context->deferred.load() != 0) return false;
  return StreamEnd(stream) <= Now();
}

CUresult SynchronizeStream(CUstream stream) {
  if (stream->capture.load() != nullptr) {
    stream->capture.load()->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  CUcontext context = stream->context;
  if (stream->legacy && context->deferred.load() != 0) {
    std::vector<CUstream> streams;
    {
      Guard guard(context->lock);
      streams = context->streams;
    }
    for (CUstream other : streams) {
      if (other->blocking) WaitResolved(other, other->submitted.load());
    }
  }
  WaitResolved(stream, stream->submitted.load());
  WaitForDevice(StreamEnd(stream));
  return CheckFault(context);
}

CUresult SynchronizeContext(CUcontext context) {
  if (context->captures.load() != 0 && thread_state().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  for (CUcontext green : GreenOnesOf(context)) {
    if (const CUresult result = SynchronizeContext(green); result != CUDA_SUCCESS) return result;
  }
  std::vector<CUstream> streams;
  {
    Guard guard(context->lock);
    streams = context->streams;
  }
  int64_t end = std::max(context->blocking_end.load(), context->legacy_end.load());
  for (CUstream stream : streams) {
    WaitResolved(stream, stream->submitted.load());
    end = std::max(end, stream->end.load());
  }
  WaitForDevice(end);
  return CheckFault(context);
}

CUresult SynchronizeEvent(CUevent event) {
  if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  WaitEventResolved(event);
  if (event->recorded.load()) WaitForDevice(event->done_at.load());
  return CheckFault(event->context);
}

}  // namespace tbprof::sim
