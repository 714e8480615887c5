// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, but for what observer.h says.
#include "cupti/observer.h"

#include "cupti/futex.h"
#include "cupti/name_record.h"
#include "cupti/text.h"

extern "C" {
void* dlopen(const char* name, int mode);
void* dlsym(void* handle, const char* name);
}

namespace tbprof::cupti {
namespace {

constexpr int kSuccess = 0;
constexpr int kNotReady = 600;
constexpr int kCaptureRelaxed = 2;
constexpr unsigned kStreamNonBlocking = 1;

constexpr uint32_t kMostContexts = 32;
constexpr uint32_t kWorks = 1024;      // of a context
constexpr uint32_t kFirstWorks = 128;  // made by the thread that brings a context
constexpr uint32_t kWorksAtOnce = 256;
constexpr uint32_t kAnchors = 8;
constexpr uint64_t kAnchorPeriodNs = 1'000'000'000;
constexpr uint64_t kGoodAnchorNs = 1'000'000;
constexpr uint64_t kFirstAnchorNs = 50'000'000;
constexpr uint64_t kEndOfContextNs = 1'000'000'000;
constexpr uint64_t kLetGoNs = 200'000'000;
constexpr uint32_t kFunctions = 16384;
constexpr uint32_t kStreams = 4096;
constexpr uint32_t kGreens = 64;
constexpr uint32_t kAnyDevice = UINT32_MAX;
// CUPTI's own numbers of calls and names are below; a process may have had both.
constexpr uint32_t kFirstCall = 8192;
constexpr uint32_t kFirstName = 1u << 24;
constexpr uint32_t kFirstStream = 16;

// name, needed, parameters.
#define TBPROF_DRIVER_FUNCTIONS(ROW)                                                    \
  ROW(cuCtxGetCurrent, true, (void**))                                                  \
  ROW(cuCtxGetDevice, true, (int*))                                                     \
  ROW(cuCtxPushCurrent_v2, true, (void*))                                               \
  ROW(cuCtxPopCurrent_v2, true, (void**))                                               \
  ROW(cuEventCreate, true, (void**, unsigned))                                          \
  ROW(cuEventDestroy_v2, true, (void*))                                                 \
  ROW(cuEventRecord, true, (void*, void*))                                              \
  ROW(cuEventQuery, true, (void*))                                                      \
  ROW(cuEventElapsedTime, true, (float*, void*, void*))                                 \
  ROW(cuStreamCreate, true, (void**, unsigned))                                         \
  ROW(cuStreamDestroy_v2, true, (void*))                                                \
  ROW(cuStreamIsCapturing, true, (void*, int*))                                         \
  ROW(cuThreadExchangeStreamCaptureMode, false, (int*))                                 \
  ROW(cuStreamGetCtx, false, (void*, void**))                                           \
  ROW(cuStreamGetCtx_v2, false, (void*, void**, void**))                                \
  ROW(cuDevicePrimaryCtxRetain, false, (void**, int))                                   \
  ROW(cuDevicePrimaryCtxRelease_v2, false, (int))                                       \
  ROW(cuDevicePrimaryCtxGetState, false, (int, unsigned*, int*))                        \
  ROW(cuPointerGetAttribute, false, (void*, int, uint64_t))                             \
  ROW(cuMemGetAllocationPropertiesFromHandle, false, (CudaMemoryProperties*, uint64_t)) \
  ROW(cuFuncGetName, false, (const char**, void*))                                      \
  ROW(cuKernelGetName, false, (const char**, void*))                                    \
  ROW(cuFuncGetAttribute, false, (int*, int, void*))                                    \
  ROW(cuKernelGetAttribute, false, (int*, int, void*, int))                             \
  ROW(cuDeviceGetName, false, (char*, int, int))                                        \
  ROW(cuDeviceTotalMem_v2, false, (uint64_t*, int))                                     \
  ROW(cuDeviceGetUuid_v2, false, (uint8_t*, int))                                       \
  ROW(cuDeviceGetAttribute, false, (int*, int, int))

struct Driver {
#define TBPROF_MEMBER(name, needed, parameters) int(*name) parameters;
  TBPROF_DRIVER_FUNCTIONS(TBPROF_MEMBER)
#undef TBPROF_MEMBER
};

// CUfunction_attribute, CUdevice_attribute, CUpointer_attribute.
enum : int { kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4 };
enum : int {
  kDeviceThreadsPerBlock = 1,
  kDeviceSharedPerBlock = 8,
  kDeviceWarp = 10,
  kDeviceRegistersPerBlock = 12,
  kDeviceClock = 13,
  kDeviceProcessors = 16,
  kDeviceIntegrated = 18,
  kDevicePciBus = 33,
  kDevicePciDevice = 34,
  kDeviceMemoryClock = 36,
  kDeviceBusWidth = 37,
  kDeviceL2 = 38,
  kDeviceThreadsPerProcessor = 39,
  kDevicePciDomain = 50,
  kDeviceMajor = 75,
  kDeviceMinor = 76,
  kDeviceSharedPerProcessor = 81,
  kDeviceRegistersPerProcessor = 82,
  kDeviceBlocksPerProcessor = 106,
};
constexpr int kPointerMemoryType = 2, kPointerDevice = 9;

// What may be done with a context's events, and by whom.
enum ContextState : uint32_t {
  kFree,
  kStarting,   // by the thread that brings it
  kLive,       // by all
  kClosing,    // by nobody, until tbprof's own thread has taken it, or the closing thread when that does not come
  kLettingGo,  // by tbprof's own thread, for the last time
  kPausing,    // by nobody: asked for, and
  kPaused,     // granted, while a reference to it is dropped that may be the last
  kDraining,   // by nobody: its works are counted back in from the threads that have them
  kDead,       // by nobody, for good
};

// A moment that both clocks know: the device's by an event.
struct Anchor {
  void* event;
  uint64_t ns;     // 0: none
  uint32_t users;  // works that are placed by it
};

struct Work {
  void *before, *after;
  uint32_t next;  // index + 1, of the list it is in
  uint32_t anchor;
  uint32_t name;      // of a kernel
  uint64_t ended_ns;  // 0: the second event says so
  CudaOperation operation;
};

struct Context {
  uint32_t state;  // ContextState
  int device;
  void* handle;
  void* stream;  // the anchors'
  bool is_told;
  uint64_t legacy_end;  // as Stream::last_end
  Anchor anchors[kAnchors];
  uint32_t anchor;  // the latest
  uint64_t unused;  // works at hand: index + 1 | changes << 32
  uint32_t at_hand;
  uint32_t made;
  uint32_t ready;           // submitted, the latest first: index + 1
  uint32_t oldest, newest;  // submitted, in order: tbprof's own thread's
  uint32_t pending;
  Work works[kWorks];
};

struct Function {
  uint64_t handle;
  uint64_t text;  // hash of its name
  uint32_t name;
  uint32_t is_kernel;
  uint32_t known;  // the rest is
  int registers, shared, local;
};

struct Stream {
  uint64_t handle;
  uint64_t last_end;  // of its work: tbprof's own thread's
  uint32_t number;
};

// A part of a device, whose streams take the primary context's events ("from the same primary context", as is said of
// cuGreenCtxRecordEvent). It may be current to one thread at a time: nobody but the program makes it so.
struct Green {
  uint64_t handle;  // of CUgreenCtx; 0: free
  void* context;    // what it was converted to; null: it was not, as far as we have seen
  void* primary;    // null: not asked yet
  uint32_t device;
};

struct Observer {
  const GpuBridge* bridge;
  GpuSession session;
  Driver driver;
  ChunkWriter* writer;  // of tbprof's own thread
  uint64_t offset;      // of the clock that records are told by to CLOCK_MONOTONIC
  uint32_t active;      // calls are recorded
  uint32_t thread_gone;
  uint32_t correlation;
  uint32_t names;
  uint32_t low;  // told that events are getting few
  uint64_t devices_told;
  void* handles[kMostContexts];  // of contexts, close together
  Context contexts[kMostContexts];
  Function functions[kFunctions];
  Stream streams[kStreams];
  uint32_t stream_count;
  uint32_t green_end;  // the places below have been used
  Green greens[kGreens];
};
Observer g_observer;

uint64_t Now() { return ReadMonotonic() + g_observer.offset; }

bool IsArmed() {
  return __atomic_load_n(&g_observer.active, __ATOMIC_ACQUIRE) != 0 &&
         (__atomic_load_n(&g_observer.session.segment.header->control, __ATOMIC_RELAXED) & kFamilyGpu) != 0;
}

// Nothing that CUDA does for us is the program's.
class Silence {
 public:
  Silence() : silenced_(g_observer.bridge->silence()) {}
  ~Silence() { g_observer.bridge->speak(silenced_); }

 private:
  uint64_t silenced_;
};

// Another thread may be capturing a graph in global mode, where calls like these would end the capture.
class Relaxed {
 public:
  Relaxed() {
    if (g_observer.driver.cuThreadExchangeStreamCaptureMode != nullptr)
      g_observer.driver.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Relaxed() {
    if (g_observer.driver.cuThreadExchangeStreamCaptureMode != nullptr)
      g_observer.driver.cuThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  int mode_ = kCaptureRelaxed;
};

// ---- records

template <typename Record>
Record* BeginOf(ChunkWriter* writer, Reservation* reservation) {
  if (!BeginRecord(g_observer.session.segment, writer, sizeof(Record) / kSlotBytes, reservation)) return nullptr;
  auto* const record = reinterpret_cast<Record*>(reservation->slots);
  *record = {};
  return record;
}
void Commit(ChunkWriter* writer, const Reservation& reservation, RecordKind kind, uint32_t aux, uint8_t flags) {
  CommitRecord(g_observer.session.segment, writer, reservation, kind, flags, static_cast<uint16_t>(aux));
}

bool TellName(ChunkWriter* writer, GpuNameKind kind, uint64_t id, const char* text) {
  return RecordName(g_observer.session.segment, writer, kind, id, text, TextLength(text, kMaxName));
}

// ---- kernels by their handles

uint64_t Scatter(uint64_t handle) { return handle * 0x9e3779b97f4a7c15 >> 32; }

// The place of `handle` in a table of places, taken now (*is_new) or before. Null: too many are near it.
template <typename Place, uint32_t size>
Place* PlaceOf(Place (&table)[size], uint64_t handle, bool* is_new) {
  *is_new = false;
  for (uint32_t i = 0; i < 64; ++i) {
    Place* const place = &table[(Scatter(handle) + i) % size];
    uint64_t found = __atomic_load_n(&place->handle, __ATOMIC_ACQUIRE);
    if (found == 0 &&
        __atomic_compare_exchange_n(&place->handle, &found, handle, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      *is_new = true;
      return place;
    }
    if (found == handle) return place;
  }
  return nullptr;
}

Function* FunctionOf(uint64_t handle) {
  bool is_new;
  return PlaceOf(g_observer.functions, handle, &is_new);
}

uint64_t HashText(const char* text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  return hash;
}

// The handle of a module that is gone may come again for another function.
void NameFunction(ChunkWriter* writer, uint64_t handle, const char* text, bool is_kernel) {
  Function* const function = handle == 0 || text == nullptr ? nullptr : FunctionOf(handle);
  if (function == nullptr) return;
  const uint64_t hash = HashText(text);
  if (__atomic_load_n(&function->name, __ATOMIC_ACQUIRE) != 0 && function->text == hash) return;
  const uint32_t name = kFirstName + __atomic_fetch_add(&g_observer.names, 1, __ATOMIC_RELAXED);
  if (!TellName(writer, GpuNameKind::kKernel, name, text)) return;
  function->text = hash;
  function->is_kernel = is_kernel;
  __atomic_store_n(&function->known, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&function->name, name, __ATOMIC_RELEASE);
}

// A handle that was got before we came, or by another way.
void AskForName(ChunkWriter* writer, uint64_t handle) {
  const char* text = nullptr;
  void* const function = reinterpret_cast<void*>(handle);
  const Driver& driver = g_observer.driver;
  if (driver.cuFuncGetName != nullptr && driver.cuFuncGetName(&text, function) == kSuccess && text != nullptr) {
    return NameFunction(writer, handle, text, false);
  }
  const bool named =
      driver.cuKernelGetName != nullptr && driver.cuKernelGetName(&text, function) == kSuccess && text != nullptr;
  NameFunction(writer, handle, named ? text : "(no name)", named);
}

void ShareName(uint64_t from, uint64_t to) {
  const Function* const known = from == 0 ? nullptr : FunctionOf(from);
  Function* const function = to == 0 ? nullptr : FunctionOf(to);
  if (known == nullptr || function == nullptr) return;
  __atomic_store_n(&function->name, __atomic_load_n(&known->name, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

// After its first launch, which has loaded it.
void AskForAttributes(Function* function, int device) {
  if (__atomic_load_n(&function->known, __ATOMIC_ACQUIRE) != 0) return;
  const Driver& driver = g_observer.driver;
  void* const handle = reinterpret_cast<void*>(function->handle);
  const auto get = [&](int attribute) {
    int value = 0;
    int result = -1;
    if (function->is_kernel != 0) {
      if (driver.cuKernelGetAttribute != nullptr) {
        result = driver.cuKernelGetAttribute(&value, attribute, handle, device);
      }
    } else if (driver.cuFuncGetAttribute != nullptr) {
      result = driver.cuFuncGetAttribute(&value, attribute, handle);
    }
    return result == kSuccess && value > 0 ? value : 0;
  };
  function->registers = get(kFunctionRegisters);
  function->shared = get(kFunctionShared);
  function->local = get(kFunctionLocal);
  __atomic_store_n(&function->known, 1, __ATOMIC_RELEASE);
}

// ---- streams

// Null: a default stream, or one too many.
Stream* StreamOf(uint64_t handle) {
  if (handle == kCudaLegacyStream || handle == kCudaThreadStream) return nullptr;
  bool is_new;
  Stream* const stream = PlaceOf(g_observer.streams, handle, &is_new);
  if (is_new) {
    __atomic_store_n(&stream->number, kFirstStream + __atomic_fetch_add(&g_observer.stream_count, 1, __ATOMIC_RELAXED),
                     __ATOMIC_RELEASE);
  }
  return stream;
}

// 0: not known by a number.
uint32_t StreamNumber(uint64_t handle) {
  if (handle == kCudaLegacyStream || handle == kCudaThreadStream) return static_cast<uint32_t>(handle);
  const Stream* const stream = StreamOf(handle);
  return stream == nullptr ? 0 : __atomic_load_n(&stream->number, __ATOMIC_ACQUIRE);
}

// ---- contexts

// Index + 1, or 0.
uint32_t PopUnused(Context* context) {
  uint64_t head = __atomic_load_n(&context->unused, __ATOMIC_ACQUIRE);
  for (;;) {
    const auto at = static_cast<uint32_t>(head);
    if (at == 0) return 0;
    const uint64_t next = __atomic_load_n(&context->works[at - 1].next, __ATOMIC_RELAXED) | ((head >> 32) + 1) << 32;
    if (__atomic_compare_exchange_n(&context->unused, &head, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      __atomic_fetch_sub(&context->at_hand, 1, __ATOMIC_RELAXED);
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
  __atomic_fetch_add(&context->at_hand, 1, __ATOMIC_RELAXED);
}

uint32_t NumberOf(const Context* context) {
  return context == nullptr ? 0 : static_cast<uint32_t>(context - g_observer.contexts) + 1;
}
uint32_t DeviceOf(const Context* context) { return context == nullptr ? 0 : static_cast<uint32_t>(context->device); }

// With the context current.
void MakeWorks(Context* context, uint32_t count) {
  const Driver& driver = g_observer.driver;
  for (uint32_t i = 0; i < count && context->made < kWorks; ++i) {
    Work* const work = &context->works[context->made];
    if (driver.cuEventCreate(&work->before, 0) != kSuccess) return;
    if (driver.cuEventCreate(&work->after, 0) != kSuccess) {
      driver.cuEventDestroy_v2(work->before);
      return;
    }
    PushUnused(context, ++context->made);
  }
}

// With the context current. False: the device has not come to it in time. Never a wait in CUDA: what holds the device
// up may be waiting for this thread.
bool DropAnchor(Context* context, uint64_t limit_ns) {
  const Driver& driver = g_observer.driver;
  const uint32_t at = (context->anchor + 1) % kAnchors;
  Anchor* const anchor = &context->anchors[at];
  if (__atomic_load_n(&anchor->users, __ATOMIC_ACQUIRE) != 0) return false;
  if (anchor->event == nullptr && driver.cuEventCreate(&anchor->event, 0) != kSuccess) return false;
  const uint64_t before = ReadMonotonic();
  if (driver.cuEventRecord(anchor->event, context->stream) != kSuccess) return false;
  const uint64_t recorded = ReadMonotonic();
  uint32_t nothing = 0;
  uint64_t asked;
  do {
    // Before the question: a thread that was descheduled asks once more.
    asked = ReadMonotonic();
    const int result = driver.cuEventQuery(anchor->event);
    const uint64_t after = ReadMonotonic();
    if (result == kSuccess) {
      // On an idle device it is there when the call has handed it over; else at some time until it was seen.
      const bool at_once = after - before < kGoodAnchorNs;
      anchor->ns = at_once ? before + (recorded - before) / 2 : recorded + (after - recorded) / 2;
      __atomic_store_n(&context->anchor, at, __ATOMIC_RELEASE);
      return true;
    }
    if (result != kNotReady) return false;
    if (after - before > kGoodAnchorNs) FutexWait(&nothing, 0, kGoodAnchorNs);
  } while (asked - before < limit_ns);
  return false;
}

bool HasAnchor(const Context* context) {
  return context->anchors[__atomic_load_n(&context->anchor, __ATOMIC_ACQUIRE)].ns != 0;
}

// With the context current, on tbprof's own thread. Work that came before the first anchor is placed by it, too.
bool EnsureAnchor(Context* context) { return HasAnchor(context) || DropAnchor(context, kFirstAnchorNs); }

void SetHandle(Context* context, void* handle) {
  context->handle = handle;
  __atomic_store_n(&g_observer.handles[context - g_observer.contexts], handle, __ATOMIC_SEQ_CST);
}

Context* KnownContext(const void* handle) {
  for (uint32_t i = 0; i < kMostContexts; ++i) {
    if (__atomic_load_n(&g_observer.handles[i], __ATOMIC_SEQ_CST) == handle) return &g_observer.contexts[i];
  }
  return nullptr;
}

// ---- green contexts

template <typename Matches>
Green* FindGreen(Matches matches) {
  const uint32_t end = __atomic_load_n(&g_observer.green_end, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < end && i < kGreens; ++i) {
    if (matches(g_observer.greens[i])) return &g_observer.greens[i];
  }
  return nullptr;
}
Green* GreenOf(uint64_t handle) {
  return FindGreen([handle](const Green& green) { return __atomic_load_n(&green.handle, __ATOMIC_ACQUIRE) == handle; });
}
Green* GreenBy(const void* context) {
  return FindGreen(
      [context](const Green& green) { return __atomic_load_n(&green.context, __ATOMIC_ACQUIRE) == context; });
}

// `context`, `primary` null: not known. Where there is no room it is taken for a context of its own.
void NoteGreen(uint64_t handle, void* context, void* primary, uint32_t device) {
  Green* green = handle == 0 ? nullptr : GreenOf(handle);
  for (uint32_t i = 0; green == nullptr && handle != 0 && i < kGreens; ++i) {
    uint64_t none = 0;
    Green* const place = &g_observer.greens[i];
    if (!__atomic_compare_exchange_n(&place->handle, &none, handle, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      continue;
    uint32_t end = __atomic_load_n(&g_observer.green_end, __ATOMIC_ACQUIRE);
    while (end <= i &&
           !__atomic_compare_exchange_n(&g_observer.green_end, &end, i + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    green = place;
    green->device = device;
  }
  if (green == nullptr) return;
  if (device != kAnyDevice) green->device = device;
  if (primary != nullptr) __atomic_store_n(&green->primary, primary, __ATOMIC_RELEASE);
  if (context != nullptr) __atomic_store_n(&green->context, context, __ATOMIC_RELEASE);
}

void ForgetGreen(uint64_t handle) {
  Green* const green = GreenOf(handle);
  if (green == nullptr) return;
  __atomic_store_n(&green->context, nullptr, __ATOMIC_RELEASE);
  __atomic_store_n(&green->primary, nullptr, __ATOMIC_RELEASE);
  __atomic_store_n(&green->handle, 0, __ATOMIC_RELEASE);
}

// Of a context that is not known: the primary one, where it is green. `stream` is in it. Null: it is not green.
void* PrimaryOfGreen(void* context, void* stream) {
  const Driver& driver = g_observer.driver;
  Green* const known = GreenBy(context);
  if (known != nullptr) {
    void* primary = __atomic_load_n(&known->primary, __ATOMIC_ACQUIRE);
    if (primary != nullptr) return primary;
    // The green one has a reference, so that this is not the last.
    const int device = static_cast<int>(known->device);
    if (known->device == kAnyDevice || driver.cuDevicePrimaryCtxRetain == nullptr ||
        driver.cuDevicePrimaryCtxRelease_v2 == nullptr ||
        driver.cuDevicePrimaryCtxRetain(&primary, device) != kSuccess) {
      return nullptr;
    }
    driver.cuDevicePrimaryCtxRelease_v2(device);
    __atomic_store_n(&known->primary, primary, __ATOMIC_RELEASE);
    return primary;
  }
  void *primary = nullptr, *green = nullptr;
  if (driver.cuStreamGetCtx_v2 == nullptr || driver.cuStreamGetCtx_v2(stream, &primary, &green) != kSuccess ||
      green == nullptr) {
    return nullptr;
  }
  NoteGreen(reinterpret_cast<uint64_t>(green), context, primary, kAnyDevice);
  return primary;
}

// By the thread that first uses it; others meanwhile do without times. Null: no room.
Context* Adopt(void* handle) {
  for (Context& context : g_observer.contexts) {
    uint32_t state = kFree;
    if (!__atomic_compare_exchange_n(&context.state, &state, kStarting, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      continue;
    }
    SetHandle(&context, handle);
    // Of two threads that bring the same one, the one with the lower place has it.
    if (Context* const first = KnownContext(handle); first != &context) {
      SetHandle(&context, nullptr);
      __atomic_store_n(&context.state, kFree, __ATOMIC_RELEASE);
      return first;
    }
    const Driver& driver = g_observer.driver;
    const Relaxed relaxed;
    int device = 0;
    if (driver.cuCtxGetDevice(&device) != kSuccess) device = 0;
    context.device = device;
    context.made = context.at_hand = context.ready = context.oldest = context.newest = context.pending = 0;
    context.unused = 0;
    context.anchor = 0;
    context.is_told = false;
    context.legacy_end = 0;
    for (Anchor& anchor : context.anchors) anchor = {};
    const bool good = driver.cuStreamCreate(&context.stream, kStreamNonBlocking) == kSuccess;
    if (good) {
      DropAnchor(&context, kGoodAnchorNs);
      MakeWorks(&context, kFirstWorks);
    }
    // Where it is not, its work has no times; asking again would not help.
    __atomic_store_n(&context.state, good ? kLive : kDead, __ATOMIC_RELEASE);
    return &context;
  }
  return nullptr;
}

void Leave() {
  void* popped = nullptr;
  g_observer.driver.cuCtxPopCurrent_v2(&popped);
}

// Of a context that need not be current. Null: no room.
Context* ContextBy(void* handle) {
  Context* const known = KnownContext(handle);
  if (known != nullptr) return known;
  if (g_observer.driver.cuCtxPushCurrent_v2(handle) != kSuccess) return nullptr;
  Context* const context = Adopt(handle);
  Leave();
  return context;
}

// Of the calling thread. Null: none, or no room.
Context* CurrentContext() {
  void* handle = nullptr;
  if (g_observer.driver.cuCtxGetCurrent(&handle) != kSuccess || handle == nullptr) return nullptr;
  Context* const context = KnownContext(handle);
  if (context != nullptr) return context;
  const Relaxed relaxed;
  void* const primary = PrimaryOfGreen(handle, reinterpret_cast<void*>(kCudaLegacyStream));
  return primary != nullptr ? ContextBy(primary) : Adopt(handle);
}

// The default streams of a green context are not those of another, though they have the same names.
uint64_t StreamKey(uint64_t stream) {
  void* handle = nullptr;
  if (stream > kCudaThreadStream || __atomic_load_n(&g_observer.green_end, __ATOMIC_ACQUIRE) == 0) return stream;
  if (g_observer.driver.cuCtxGetCurrent(&handle) != kSuccess || handle == nullptr) return stream;
  return GreenBy(handle) == nullptr ? stream : reinterpret_cast<uint64_t>(handle);
}

// Work may go into a stream of another context than the current one. Null: the stream says none, or none that is known.
Context* ContextOfStream(uint64_t stream) {
  const Driver& driver = g_observer.driver;
  void *const handle = reinterpret_cast<void*>(stream), *context = nullptr, *green = nullptr;
  if (stream <= kCudaThreadStream) return nullptr;
  if (driver.cuStreamGetCtx_v2 != nullptr) {
    // The primary one of a green context.
    return driver.cuStreamGetCtx_v2(handle, &context, &green) == kSuccess && context != nullptr ? ContextBy(context)
                                                                                                : nullptr;
  }
  if (driver.cuStreamGetCtx == nullptr || driver.cuStreamGetCtx(handle, &context) != kSuccess || context == nullptr) {
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

bool IsLive(const Context* context) { return __atomic_load_n(&context->state, __ATOMIC_ACQUIRE) == kLive; }

void WakeOwnThread() { cupti::WakeOwnThread(g_observer.session.process); }

bool Change(Context* context, ContextState from, ContextState to) {
  uint32_t expected = from;
  return __atomic_compare_exchange_n(&context->state, &expected, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void AskOwnThread(Context* context, ContextState asked) {
  if (__atomic_load_n(&g_observer.thread_gone, __ATOMIC_ACQUIRE) != 0) return;
  WakeOwnThread();
  FutexWaitFor(&context->state, kEndOfContextNs, [asked](uint32_t state) { return state != asked; });
}

// Its events end with it: tbprof's own thread lets go of them first. Whoever takes the state out of kClosing decides,
// so that nothing is touched after a wait in vain.
void Close(Context* context) {
  if (!Change(context, kLive, kClosing)) return;
  AskOwnThread(context, kClosing);
  if (Change(context, kClosing, kDead)) return SetHandle(context, nullptr);
  FutexWaitFor(&context->state, kEndOfContextNs, [](uint32_t state) { return state != kLettingGo; });
}

// A reference to the primary context of a device is dropped, which may be the last.
void Pause(Context* context) {
  if (!Change(context, kLive, kPausing)) return;
  AskOwnThread(context, kPausing);
  if (Change(context, kPausing, kDead)) SetHandle(context, nullptr);
}
void Resume(Context* context, bool exists) {
  if (__atomic_load_n(&context->state, __ATOMIC_ACQUIRE) != kPaused) return;
  if (!exists) SetHandle(context, nullptr);
  __atomic_store_n(&context->state, exists ? kLive : kDraining, __ATOMIC_RELEASE);
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

// ---- around a call, on the program's thread

bool IsWork(CudaAction action) {
  return action == CudaAction::kLaunch || action == CudaAction::kGraph || action == CudaAction::kCopy ||
         action == CudaAction::kSet;
}

// 0: host memory, as far as CUDA knows.
int MemoryType(uint64_t address) {
  unsigned type = 0;
  const auto get = g_observer.driver.cuPointerGetAttribute;
  return get != nullptr && get(&type, kPointerMemoryType, address) == kSuccess && type == 2 ? 2 : 0;
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
constexpr uint32_t kCaptured = UINT32_MAX;         // goes into a graph: the device does nothing now
constexpr uint32_t kNotRecorded = UINT32_MAX - 1;  // of interest to us alone

bool HasEvents(const CudaOperation& operation) {
  return operation.work != kNoWork && operation.work != kCaptured && operation.work != kNotRecorded;
}

void Release(Context* context, uint32_t at) {
  __atomic_fetch_sub(&context->anchors[context->works[at - 1].anchor].users, 1, __ATOMIC_ACQ_REL);
  PushUnused(context, at);
}

// A call may be left while it is in CUDA, which may wait for room in its queues: then this is what is taken back.
void SayInHand(const CudaOperation& operation, uint32_t work) {
  SignalFence();
  *const_cast<volatile uint32_t*>(operation.in_hand) = work;
  SignalFence();
}

// context index << 16 | work, counted from 1. Works in a thread's hands are in no list: those of one call are linked.
uint32_t BeginIn(Context* context, const CudaOperation& operation) {
  if (context == nullptr || !IsLive(context)) return kNoWork;
  const uint32_t at = PopUnused(context);
  if (at == 0) return kNoWork;
  Work* const work = &context->works[at - 1];
  work->ended_ns = 0;
  work->anchor = __atomic_load_n(&context->anchor, __ATOMIC_ACQUIRE);
  __atomic_fetch_add(&context->anchors[work->anchor].users, 1, __ATOMIC_ACQ_REL);
  const uint32_t number = static_cast<uint32_t>(context - g_observer.contexts) << 16 | at;
  const uint32_t others = *operation.in_hand;
  work->next = others;
  SayInHand(operation, number);
  if (g_observer.driver.cuEventRecord(work->before, reinterpret_cast<void*>(operation.stream)) != kSuccess) {
    SayInHand(operation, others);
    Release(context, at);
    return kNoWork;
  }
  return number;
}

uint32_t BeginWork(const CudaOperation& operation) {
  const Driver& driver = g_observer.driver;
  void* const stream = reinterpret_cast<void*>(operation.stream);
  int capturing = 0;
  if (driver.cuStreamIsCapturing(stream, &capturing) != kSuccess) return kNoWork;
  if (capturing != 0) return kCaptured;
  Context* const context = CurrentContext();
  if (const uint32_t work = BeginIn(context, operation); work != kNoWork) return work;
  // None at hand is the usual reason, and asking for the stream's own context would cost each such launch.
  if (context != nullptr && __atomic_load_n(&context->at_hand, __ATOMIC_RELAXED) == 0) return kNoWork;
  // An event may not go into a stream of another context.
  Context* const other = ContextOfStream(operation.stream);
  return other == context ? kNoWork : BeginIn(other, operation);
}

Work* WorkOf(uint32_t work) { return &g_observer.contexts[work >> 16].works[(work & 0xffff) - 1]; }

// The launch on one device of a launch on several.
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

// The first of them, in the order of the launches.
uint32_t BeginMany(const CudaOperation& operation) {
  for (auto i = static_cast<uint32_t>(operation.bytes); i-- > 0;) {
    const CudaOperation one = LaunchOf(operation, i);
    const uint32_t work = BeginWork(one);
    if (work == kNoWork || work == kCaptured) continue;
    WorkOf(work)->operation.value = i;
  }
  return *operation.in_hand;
}

// What must be seen also while nothing is recorded: the ends of contexts, and the names of handles.
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
  const Silence silence;
  if (operation->action == CudaAction::kEndContext || operation->action == CudaAction::kEndDevice) {
    ForContexts(*operation, Close);
  } else if (operation->action == CudaAction::kReleaseDevice) {
    ForContexts(*operation, Pause);
  } else if (operation->action == CudaAction::kEndGreen) {
    const Green* const green = GreenOf(operation->object);
    operation->value = green == nullptr ? kAnyDevice : green->device;
    ForContexts(*operation, Pause);
  }
  if (!armed) return true;
  operation->correlation = __atomic_add_fetch(&g_observer.correlation, 1, __ATOMIC_RELAXED);
  if (IsWork(operation->action)) {
    FindCopyKind(operation);
    operation->work = BeginWork(*operation);
  } else if (operation->action == CudaAction::kLaunchMany) {
    operation->work = BeginMany(*operation);
  } else if (operation->action == CudaAction::kRelease) {
    CudaMemoryProperties properties[2] = {};  // room for what a later version adds
    const auto get = g_observer.driver.cuMemGetAllocationPropertiesFromHandle;
    if (get != nullptr && get(properties, operation->object) == kSuccess && properties->location.type == 1) {
      operation->value = static_cast<uint32_t>(properties->location.id) + 1;
    }
  } else if (operation->action == CudaAction::kFree) {
    // Not the current one, perhaps.
    int device = 0;
    const auto get = g_observer.driver.cuPointerGetAttribute;
    if (get != nullptr && get(&device, kPointerDevice, operation->object) == kSuccess && device >= 0) {
      operation->value = static_cast<uint32_t>(device) + 1;
    }
  }
  operation->start = Now();
  return true;
}

void OnMemory(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, const Context* context) {
  const bool release = operation.action != CudaAction::kAllocate;
  const uint64_t address = release ? operation.object : operation.result == nullptr ? 0 : *operation.result;
  if (address == 0) return;
  uint64_t bytes = operation.bytes;
  if (!release && operation.addresses[0] != 0) bytes *= *reinterpret_cast<const size_t*>(operation.addresses[0]);
  Reservation reservation;
  auto* record = BeginOf<GpuMemoryRecord>(writer, &reservation);
  if (record == nullptr) return;
  // Another thread may be given the address before the call has returned.
  record->time = release ? operation.start : now;
  record->address = address;
  record->bytes = bytes;
  record->correlation = operation.correlation;
  record->context = NumberOf(context);
  record->stream = operation.has_stream ? StreamNumber(StreamKey(operation.stream)) : UINT32_MAX;
  record->operation = release ? GpuMemoryOperation::kRelease : GpuMemoryOperation::kAllocation;
  record->memory_kind = operation.type;
  record->asynchronous = operation.asynchronous;
  Commit(writer, reservation, RecordKind::kGpuMemory, operation.value > 0 ? operation.value - 1 : DeviceOf(context), 0);
}

void OnWait(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, const Context* context) {
  Reservation reservation;
  auto* record = BeginOf<GpuSpanRecord>(writer, &reservation);
  if (record == nullptr) return;
  record->start = operation.start;
  record->end = now;
  record->correlation = operation.correlation;
  record->context = NumberOf(context);
  record->stream = operation.has_stream ? StreamNumber(StreamKey(operation.stream)) : UINT32_MAX;
  record->span_kind = GpuSpanKind::kSynchronization;
  record->type = operation.type;
  record->object = static_cast<uint32_t>(operation.object);
  Commit(writer, reservation, RecordKind::kGpuSpan, 0, 0);
}

// A record with what all kinds of work have. Null: no room.
template <typename Record>
Record* BeginWorkRecord(ChunkWriter* writer, const CudaOperation& operation, const Context* context, uint64_t start,
                        uint64_t end, Reservation* reservation) {
  auto* record = BeginOf<Record>(writer, reservation);
  if (record == nullptr) return nullptr;
  record->start = start;
  record->end = end;
  record->correlation = operation.correlation;
  record->context = NumberOf(context);
  record->stream = StreamNumber(operation.stream);
  return record;
}

// `start` 0: not known when; `end` 0: not over.
void RecordWork(ChunkWriter* writer, const CudaOperation& operation, const Context* context, uint32_t name,
                uint64_t start, uint64_t end) {
  const uint32_t device = DeviceOf(context);
  Reservation reservation;
  if (operation.action == CudaAction::kLaunch) {
    auto* record = BeginWorkRecord<GpuKernelRecord>(writer, operation, context, start, end, &reservation);
    if (record == nullptr) return;
    record->name = name;
    record->grid_x = operation.grid_x;
    record->grid_y = operation.grid_y;
    record->grid_z = operation.grid_z;
    record->block_x = operation.block_x;
    record->block_y = operation.block_y;
    record->block_z = operation.block_z;
    record->dynamic_shared_bytes = operation.shared_bytes;
    record->launch_type = operation.type;
    if (const Function* function = FunctionOf(operation.object); function != nullptr) {
      record->registers = static_cast<uint16_t>(function->registers);
      record->static_shared_bytes = static_cast<uint32_t>(function->shared);
      record->local_bytes = static_cast<uint32_t>(function->local);
    }
    return Commit(writer, reservation, RecordKind::kGpuKernel, device, kRecordApproximate);
  }
  if (operation.action == CudaAction::kGraph) {
    auto* record = BeginWorkRecord<GpuSpanRecord>(writer, operation, context, start, end, &reservation);
    if (record == nullptr) return;
    record->span_kind = GpuSpanKind::kGraph;
    record->object = static_cast<uint32_t>(operation.object >> 4);
    return Commit(writer, reservation, RecordKind::kGpuSpan, device, kRecordApproximate);
  }
  auto* record = BeginWorkRecord<GpuCopyRecord>(writer, operation, context, start, end, &reservation);
  if (record == nullptr) return;
  record->bytes = operation.bytes;
  record->value = operation.value;
  record->copy_kind = operation.action == CudaAction::kSet ? GpuCopyKind::kSet : operation.copy_kind;
  record->asynchronous = operation.asynchronous;
  Commit(writer, reservation, RecordKind::kGpuCopy, device, kRecordApproximate);
}

void RecordCall(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, int result) {
  Reservation reservation;
  auto* record = BeginOf<GpuApiRecord>(writer, &reservation);
  if (record == nullptr) return;
  record->start = operation.start;
  record->duration_and_result = (now - operation.start) << 16 | static_cast<uint16_t>(result);
  record->correlation = operation.correlation;
  record->tid = writer->thread->tid;
  Commit(writer, reservation, RecordKind::kGpuApi, kFirstCall + static_cast<uint32_t>(operation.call),
         static_cast<uint8_t>(kRecordDriver | (result != kSuccess ? kRecordFailed : 0)));
}

// The kernel's name.
uint32_t LaunchedName(ChunkWriter* writer, uint64_t handle, const Context* context) {
  Function* const function = FunctionOf(handle);
  if (function == nullptr) return 0;
  if (__atomic_load_n(&function->name, __ATOMIC_ACQUIRE) == 0) AskForName(writer, handle);
  if (context != nullptr) AskForAttributes(function, context->device);
  return __atomic_load_n(&function->name, __ATOMIC_ACQUIRE);
}

// A copy from or to the host that has returned is over, and an event after it would have the program find its stream
// busy.
bool IsOverAtReturn(const CudaOperation& operation) {
  return operation.action == CudaAction::kCopy && !operation.asynchronous &&
         operation.copy_kind != GpuCopyKind::kDeviceToDevice && operation.copy_kind != GpuCopyKind::kPeerToPeer;
}

void EndWork(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, int result) {
  if (operation.work == kCaptured) return;
  Context* const context = HasEvents(operation) ? &g_observer.contexts[operation.work >> 16] : ContextOf(operation);
  const uint32_t at = operation.work & 0xffff;
  if (result != kSuccess) {
    SayInHand(operation, kNoWork);
    if (at != 0) Release(context, at);
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
  } else if (g_observer.driver.cuEventRecord(work->after, reinterpret_cast<void*>(operation.stream)) != kSuccess) {
    SayInHand(operation, kNoWork);
    Release(context, at);
    return record_without_times();
  }
  work->operation = operation;
  work->operation.stream = StreamKey(operation.stream);
  work->name = name;
  SayInHand(operation, kNoWork);
  uint32_t head = __atomic_load_n(&context->ready, __ATOMIC_ACQUIRE);
  do {
    work->next = head;
  } while (!__atomic_compare_exchange_n(&context->ready, &head, at, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  if (__atomic_load_n(&context->at_hand, __ATOMIC_RELAXED) < context->made / 4 &&
      __atomic_exchange_n(&g_observer.low, 1, __ATOMIC_ACQ_REL) == 0) {
    WakeOwnThread();
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
    uint32_t in_hand = one.work;
    SayInHand(operation, work);
    one.in_hand = &in_hand;
    EndWork(writer, one, now, result);
  }
}

// What the thread has in its hands goes back.
void LetGoOf(const CudaOperation& operation) {
  if (!HasEvents(operation)) return;
  uint32_t work = operation.work;
  do {
    const uint32_t next = operation.action == CudaAction::kLaunchMany ? WorkOf(work)->next : kNoWork;
    Release(&g_observer.contexts[work >> 16], work & 0xffff);
    work = next;
  } while (work != kNoWork);
}

// After a call that may have dropped a last reference.
void ResumeAll(const CudaOperation& operation) {
  if (operation.action != CudaAction::kReleaseDevice && operation.action != CudaAction::kEndGreen) return;
  ForContexts(operation, [](Context* context) {
    unsigned flags = 0;
    int exists = 0;
    const auto get = g_observer.driver.cuDevicePrimaryCtxGetState;
    if (get == nullptr || get(context->device, &flags, &exists) != kSuccess) exists = 0;
    Resume(context, exists != 0);
  });
}

void OnEnd(CudaOperation* operation, int result) {
  const uint64_t now = Now();
  ChunkWriter* const writer = g_observer.bridge->writer_of_thread();
  const Silence silence;
  ResumeAll(*operation);
  if (operation->action == CudaAction::kEndGreen && result == kSuccess) ForgetGreen(operation->object);
  if (result == kSuccess && operation->action == CudaAction::kMakeGreen) {
    NoteGreen(*operation->result, nullptr, nullptr, operation->value);
  } else if (result == kSuccess && operation->action == CudaAction::kConvertGreen) {
    NoteGreen(operation->object, reinterpret_cast<void*>(*operation->result), nullptr, kAnyDevice);
  }
  if (writer == nullptr) {
    SayInHand(*operation, kNoWork);
    return LetGoOf(*operation);
  }
  if (operation->work != kNotRecorded) RecordCall(writer, *operation, now, result);
  if (IsWork(operation->action)) return EndWork(writer, *operation, now, result);
  if (operation->action == CudaAction::kLaunchMany) return EndMany(writer, *operation, now, result);
  if (result != kSuccess) return;
  switch (operation->action) {
    case CudaAction::kAllocate:
    case CudaAction::kFree:
    case CudaAction::kRelease:
      return OnMemory(writer, *operation, now, ContextOf(*operation));
    case CudaAction::kWait:
      return OnWait(writer, *operation, now, ContextOf(*operation));
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
  const Silence silence;
  ResumeAll(operation);
  LetGoOf(operation);
}

constexpr CudaObserver kObserver = {OnBegin, OnEnd, OnLeft};

// ---- on tbprof's own thread

void TellDevice(int device) {
  if (device < 0 || device >= 64 || (g_observer.devices_told & uint64_t{1} << device) != 0) return;
  const Driver& driver = g_observer.driver;
  char name[128] = {};
  if (driver.cuDeviceGetName != nullptr) driver.cuDeviceGetName(name, sizeof(name) - 1, device);
  const auto get = [&](int attribute) {
    int value = 0;
    return driver.cuDeviceGetAttribute != nullptr &&
                   driver.cuDeviceGetAttribute(&value, attribute, device) == kSuccess && value > 0
               ? static_cast<uint32_t>(value)
               : 0;
  };
  const uint32_t length = TextLength(name, sizeof(name));
  Reservation reservation;
  if (!BeginRecord(g_observer.session.segment, g_observer.writer,
                   sizeof(GpuDeviceRecord) / kSlotBytes + SlotsFor(length), &reservation)) {
    return;
  }
  auto* record = reinterpret_cast<GpuDeviceRecord*>(reservation.slots);
  *record = {};
  if (driver.cuDeviceTotalMem_v2 != nullptr) driver.cuDeviceTotalMem_v2(&record->memory_bytes, device);
  if (driver.cuDeviceGetUuid_v2 != nullptr) driver.cuDeviceGetUuid_v2(record->uuid, device);
  record->core_clock_khz = get(kDeviceClock);
  record->memory_clock_khz = get(kDeviceMemoryClock);
  // Two transfers a clock, as CUPTI reckons it.
  record->memory_bandwidth = uint64_t{2} * record->memory_clock_khz * get(kDeviceBusWidth) / 8;
  record->compute_major = static_cast<uint16_t>(get(kDeviceMajor));
  record->compute_minor = static_cast<uint16_t>(get(kDeviceMinor));
  record->multiprocessors = get(kDeviceProcessors);
  record->threads_per_warp = get(kDeviceWarp);
  if (record->threads_per_warp != 0) {
    record->warps_per_multiprocessor = get(kDeviceThreadsPerProcessor) / record->threads_per_warp;
  }
  record->blocks_per_multiprocessor = get(kDeviceBlocksPerProcessor);
  record->threads_per_block = get(kDeviceThreadsPerBlock);
  record->shared_bytes_per_multiprocessor = get(kDeviceSharedPerProcessor);
  record->registers_per_multiprocessor = get(kDeviceRegistersPerProcessor);
  record->shared_bytes_per_block = get(kDeviceSharedPerBlock);
  record->registers_per_block = get(kDeviceRegistersPerBlock);
  record->l2_bytes = get(kDeviceL2);
  record->name_length = length;
  record->pci_bus = static_cast<int32_t>(get(kDevicePciBus));
  record->pci_device = static_cast<int32_t>(get(kDevicePciDevice));
  record->pci_domain = static_cast<int32_t>(get(kDevicePciDomain));
  record->flags = get(kDeviceIntegrated) != 0 ? 2 : 0;
  record->visible_index = static_cast<uint32_t>(device);
  __builtin_memcpy(record + 1, name, length);
  Commit(g_observer.writer, reservation, RecordKind::kGpuDevice, static_cast<uint32_t>(device), 0);
  g_observer.devices_told |= uint64_t{1} << device;
}

void TellContext(Context* context) {
  if (context->is_told) return;
  TellDevice(context->device);
  Reservation reservation;
  auto* record = BeginOf<GpuContextRecord>(g_observer.writer, &reservation);
  if (record == nullptr) return;
  record->context = NumberOf(context);
  record->stream = static_cast<uint32_t>(kCudaLegacyStream);
  Commit(g_observer.writer, reservation, RecordKind::kGpuContext, static_cast<uint32_t>(context->device), 0);
  context->is_told = true;
}

// Appends what was submitted, the first first.
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

// When the device came to the work. By the anchor before it, or by a later one that is much nearer: clocks drift, and
// what CUDA says of long times is coarse. 0: cannot be told.
uint64_t StartOf(const Context& context, const Work& work) {
  const Driver& driver = g_observer.driver;
  const uint64_t submitted = work.operation.start - g_observer.offset;
  const Anchor& anchor = context.anchors[work.anchor];
  const Anchor& latest = context.anchors[context.anchor];
  float ms = 0;
  uint64_t start = 0;
  if (anchor.ns == 0) {
    // Begun before there was one. Negative: the work came after it, nevertheless.
    if (latest.ns == 0 || driver.cuEventElapsedTime(&ms, work.before, latest.event) != kSuccess) return 0;
    start = latest.ns - static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(ms) * 1e6));
  } else if (submitted > anchor.ns + 2 * kAnchorPeriodNs && latest.ns > submitted &&
             latest.ns - submitted < submitted - anchor.ns &&
             driver.cuEventElapsedTime(&ms, work.before, latest.event) == kSuccess && ms >= 0) {
    start = latest.ns - static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
  } else if (driver.cuEventElapsedTime(&ms, anchor.event, work.before) == kSuccess) {
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
  } else if (start != 0 && g_observer.driver.cuEventElapsedTime(&ms, work.before, work.after) == kSuccess) {
    end = start + (ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0);
  } else {
    start = end = 0;
  }
  // One after the other in a stream, which two roundings can hide.
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

// What has ended. A stream's work ends in order: one look at each that has not is enough.
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
    if (!waits && g_observer.driver.cuEventQuery(work->ended_ns != 0 ? work->before : work->after) == kNotReady) {
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
    Release(context, at);
  }
}

// All that was submitted and not recorded, the first first; they are at hand again.
template <typename Record>
void TakeAll(Context* context, Record record) {
  while (context->oldest != 0) {
    const uint32_t at = context->oldest;
    Work* const work = &context->works[at - 1];
    context->oldest = work->next;
    record(*work);
    Release(context, at);
  }
  context->newest = 0;
  context->pending = 0;
}

// The rest, that nobody waits for any longer. `end_ns`: it was not over then; 0: the process ends before it does.
void RecordUnfinished(Context* context, uint64_t end_ns) {
  TakeAll(context, [=](const Work& work) {
    const bool begun = g_observer.driver.cuEventQuery(work.before) == kSuccess;
    const uint64_t known = begun ? StartOf(*context, work) : 0;
    const uint64_t start = known != 0 ? known : work.operation.start;
    RecordWork(g_observer.writer, work.operation, context, work.name, start,
               end_ns != 0 && end_ns < start ? start : end_ns);
  });
}

// Not longer than the context is ours to look at.
void PollFor(Context* context, uint64_t limit_ns) {
  const uint64_t begun = ReadMonotonic();
  const uint32_t state = __atomic_load_n(&context->state, __ATOMIC_ACQUIRE);
  uint32_t nothing = 0;
  EnsureAnchor(context);
  for (;;) {
    TakeReady(context);
    Poll(context);
    // Some may be in the hands of threads that are about to submit them.
    const bool all = __atomic_load_n(&context->at_hand, __ATOMIC_ACQUIRE) == context->made;
    if ((context->pending == 0 && all) || ReadMonotonic() - begun >= limit_ns) return;
    FutexWait(&nothing, 0, 500'000);
    if (__atomic_load_n(&context->state, __ATOMIC_ACQUIRE) != state) return;
  }
}

bool Enter(const Context& context) { return g_observer.driver.cuCtxPushCurrent_v2(context.handle) == kSuccess; }
void Collect(Context* context) {
  TellContext(context);
  TakeReady(context);
  if (context->pending == 0 || !Enter(*context)) return;
  const Relaxed relaxed;
  EnsureAnchor(context);
  Poll(context);
  Leave();
}

// The context ends when this says so: not before its events are gone, but for those of a work that a thread has in its
// hands at this moment.
void LetGo(Context* context) {
  const Driver& driver = g_observer.driver;
  const Relaxed relaxed;
  bool all = false;
  TellContext(context);
  if (Enter(*context)) {
    PollFor(context, kLetGoNs);
    RecordUnfinished(context, Now());
    uint32_t destroyed = 0;
    for (uint32_t at; (at = PopUnused(context)) != 0; ++destroyed) {
      driver.cuEventDestroy_v2(context->works[at - 1].before);
      driver.cuEventDestroy_v2(context->works[at - 1].after);
    }
    context->made -= destroyed;
    all = context->made == 0;
    for (const Anchor& anchor : context->anchors) {
      if (all && anchor.event != nullptr) driver.cuEventDestroy_v2(anchor.event);
    }
    if (all) driver.cuStreamDestroy_v2(context->stream);
    Leave();
  }
  SetHandle(context, nullptr);
  __atomic_store_n(&context->state, all ? kFree : kDraining, __ATOMIC_RELEASE);
  FutexWake(&context->state);
}

// Of a context that is no more: what threads had in their hands comes back, without times.
void Drain(Context* context) {
  TakeReady(context);
  TakeAll(context, [=](const Work& work) { RecordWork(g_observer.writer, work.operation, context, work.name, 0, 0); });
  while (PopUnused(context) != 0) --context->made;
  if (context->made == 0) __atomic_store_n(&context->state, kFree, __ATOMIC_RELEASE);
}

}  // namespace

void ServeContexts() {
  for (Context& context : g_observer.contexts) {
    if (Change(&context, kClosing, kLettingGo)) {
      LetGo(&context);
    } else if (__atomic_load_n(&context.state, __ATOMIC_ACQUIRE) == kPausing) {
      // What is over is taken along: this may be the end of it all.
      Collect(&context);
      Change(&context, kPausing, kPaused);
      FutexWake(&context.state);
    } else if (__atomic_load_n(&context.state, __ATOMIC_ACQUIRE) == kDraining) {
      Drain(&context);
    }
  }
}

bool PrepareObserving(const GpuBridge* bridge, const GpuSession& session, uint64_t offset) {
  constexpr int kNow = 2, kOnlyIfLoaded = 4;
  g_observer.bridge = bridge;
  g_observer.session = session;
  g_observer.offset = offset;
  void* const library = dlopen("libcuda.so.1", kNow | kOnlyIfLoaded);
  if (library == nullptr) return false;
#define TBPROF_FIND(name, needed, parameters)                                                         \
  g_observer.driver.name = reinterpret_cast<decltype(g_observer.driver.name)>(dlsym(library, #name)); \
  if (needed && g_observer.driver.name == nullptr) return false;
  TBPROF_DRIVER_FUNCTIONS(TBPROF_FIND)
#undef TBPROF_FIND
  return bridge->set_observer(&kObserver);
}

void StartObserving() { __atomic_store_n(&g_observer.active, 1, __ATOMIC_RELEASE); }

void BeginObserving(ChunkWriter* writer) {
  g_observer.writer = writer;
#define TBPROF_CUDA_CALL(symbol, ...) \
  TellName(writer, GpuNameKind::kDriverCallback, kFirstCall + static_cast<uint32_t>(CudaCall::symbol), #symbol);
#define TBPROF_CUDA_STREAM_CALL TBPROF_CUDA_CALL
#include "wire/cuda_calls.def"
  TellName(writer, GpuNameKind::kStream, kCudaLegacyStream, "default stream");
  TellName(writer, GpuNameKind::kStream, kCudaThreadStream, "default streams of threads");
}

void NameObservedStream(ChunkWriter* writer, void* stream, const char* name) {
  const uint32_t number = StreamNumber(reinterpret_cast<uint64_t>(stream));
  if (number != 0) TellName(writer, GpuNameKind::kStream, number, name);
}

uint32_t CollectWork() {
  const Relaxed relaxed;
  uint32_t pending = 0;
  __atomic_store_n(&g_observer.low, 0, __ATOMIC_RELEASE);
  ServeContexts();
  for (Context& context : g_observer.contexts) {
    if (!IsLive(&context)) continue;
    TellContext(&context);
    TakeReady(&context);
    const bool few = __atomic_load_n(&context.at_hand, __ATOMIC_RELAXED) < context.made / 2 && context.made < kWorks;
    const bool anchored = HasAnchor(&context);
    if (context.pending == 0 && !few && anchored) continue;
    if (!Enter(context)) continue;
    if (!anchored) {
      EnsureAnchor(&context);
    } else if (ReadMonotonic() - context.anchors[context.anchor].ns > kAnchorPeriodNs) {
      DropAnchor(&context, kGoodAnchorNs);
    }
    if (HasAnchor(&context)) Poll(&context);
    if (few) MakeWorks(&context, kWorksAtOnce);
    Leave();
    pending += context.pending;
    ServeContexts();
  }
  return pending;
}

void StopObserving(uint64_t limit_ns, bool at_end) {
  const Relaxed relaxed;
  __atomic_store_n(&g_observer.active, 0, __ATOMIC_RELEASE);
  const uint64_t begun = ReadMonotonic();
  for (Context& context : g_observer.contexts) {
    ServeContexts();
    // In turns: another thread may be waiting to end its context.
    bool over = false;
    while (!over && IsLive(&context) && Enter(context)) {
      const uint64_t spent = ReadMonotonic() - begun;
      const uint64_t left = spent < limit_ns ? limit_ns - spent : 0;
      PollFor(&context, left < kLetGoNs ? left : kLetGoNs);
      over = context.pending == 0 || left <= kLetGoNs;
      if (over && IsLive(&context)) RecordUnfinished(&context, at_end ? 0 : Now());
      Leave();
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
