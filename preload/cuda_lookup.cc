// SPDX-License-Identifier: Apache-2.0
//
// Decides which callers get a hook on CUDA's driver interface: look-ups by cuGetProcAddress and dlsym, and linked
// references (docs/decisions/037-one-pointer-for-each-hook.md).
//
// Rules: RULES.md.
#include <dlfcn.h>
#include <errno.h>

#include "preload/cuda_functions.h"
#include "preload/gpu.h"
#include "preload/modules.h"
#include "preload/resolve.h"
#include "preload/state.h"
#include "preload/triggers.h"

namespace tbprof {

CudaFunctions g_cuda;

bool AreCudaHooksWanted() {
  return g_attachment.attached && (g_attachment.segment.header->gpu_options & kGpuByHooks) != 0 &&
         t_thread.phase != ThreadPhase::kOwn;
}

// Also true if CUPTI records CUDA's calls, or if nothing records them.
bool IsProfilerSwitchWanted() { return IsCudaProfilerWaitedFor() && t_thread.phase != ThreadPhase::kOwn; }

namespace {

constexpr char kDriver[] = "libcuda.so.1\0";

// Targets of linked references that are the same for every caller.
CudaFunctions g_linked;

// The driver in the global scope, which precedes every driver that is loaded later.
const link_map* g_driver_at_start;

template <typename Function>
void** Slot(Function* function) {
  return reinterpret_cast<void**>(function);
}
template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

int TakeDriver(dl_phdr_info* info, size_t, void* data) {
  const ElfW(Dyn)* const dynamic = DynamicOf(*info);
  if (dynamic == nullptr) return 0;
  const DynamicTables tables(info->dlpi_addr, dynamic);
  if (tables.soname == nullptr || !SameText(tables.soname, kDriver)) return 0;
  *static_cast<const void**>(data) = dynamic;
  return 1;
}

// Returns the driver whose calls are recorded. The recorder creates events in this driver, so the streams must belong
// to it. Takes no loader lock: a constructor that dlopen runs may wait for this thread.
const link_map* Driver() {
  static const link_map* driver;
  const link_map* found = __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
  if (found != nullptr) return found;
  const void* part = nullptr;
  VisitObjects(TakeDriver, &part);
  if (part != nullptr) found = ObjectAt(part);
  if (found != nullptr) __atomic_store_n(&driver, found, __ATOMIC_RELEASE);
  return found;
}

bool IsOfDriver(const void* function) {
  const link_map* const library = ObjectAt(function);
  return library != nullptr && library == Driver();
}

bool IsExportOf(const void* function, const char* symbol) {
  const link_map* const library = ObjectAt(function);
  return library != nullptr && SymbolOf(library, symbol) == function;
}

bool IsOurs(const void* function) { return ObjectAt(function) == ObjectAt(Address(&Hook_cuProfilerStart)); }

// A hook stands for its first pointer for good. Any other pointer is a function of another driver or a different
// function; the caller gets it unchanged.
void* Take(void** slot, void* found, void* hook) {
  void* first = nullptr;
  const bool taken = __atomic_compare_exchange_n(slot, &first, found, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return taken || first == found ? hook : found;
}

// ---- cuGetProcAddress

constexpr uint64_t kThreadStreams = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

struct Request {
  const char* name;
  void* found;
  int version;
  uint64_t flags;
  int (*ask)(const char* name, void** function, int version, uint64_t flags);
};

int AskSecond(const char* name, void** function, int version, uint64_t flags) {
  int status = 0;
  return g_cuda.cuGetProcAddress_v2(name, function, version, flags, &status);
}

// Whether the found function has the interface of version `since`. A driver newer than this table may have another one.
bool IsSameSince(const Request& request, int since) {
  void* first = nullptr;
  return request.version == since ||
         (request.ask(request.name, &first, since, request.flags) == 0 && first == request.found);
}

struct Candidate {
  const char* symbol;
  void** slot;
  void* hook;
  int since;
};
template <typename Function>
Candidate MakeCandidate(const char* symbol, Function* slot, Function hook, int since) {
  return {symbol, Slot(slot), Address(hook), since};
}

void* TakeFound(const Request& request, const Candidate& candidate) {
  if (!IsExportOf(request.found, candidate.symbol) && !IsSameSince(request, candidate.since)) return request.found;
  return Take(candidate.slot, request.found, candidate.hook);
}

void* TakeFound(const Request& request, const Candidate& plain, const Candidate& suffixed) {
  if ((request.flags & kThreadStreams) == 0) return TakeFound(request, plain);
  // For a version older than the suffixed body, the driver returns either of the two.
  if (IsExportOf(request.found, plain.symbol)) return Take(plain.slot, request.found, plain.hook);
  if (request.version >= suffixed.since) return TakeFound(request, suffixed);
  return IsExportOf(request.found, suffixed.symbol) ? Take(suffixed.slot, request.found, suffixed.hook) : request.found;
}

// Not inlined: there are 150 rows.
__attribute__((noinline)) bool Asks(const Request& request, const char* rest, int since, int until) {
  return request.version >= since && request.version < until && SameText(request.name + 2, rest);
}

#define TBPROF_CANDIDATE(symbol, since) MakeCandidate(#symbol, &g_cuda.symbol, &Hook_##symbol, since)

void* HookOf(const Request& request) {
#define TBPROF_CUDA_CALL(symbol, name, since, until, ...) \
  if (Asks(request, &#name[2], since, until)) return TakeFound(request, TBPROF_CANDIDATE(symbol, since));
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, suffix_since, ...) \
  if (Asks(request, &#name[2], since, until))                                          \
    return TakeFound(request, TBPROF_CANDIDATE(symbol, since), TBPROF_CANDIDATE(symbol##suffix, suffix_since));
#include "wire/cuda_calls.def"
  return request.found;
}

// Hooks for functions without a row: cuProfilerStart and cuProfilerStop, which switch a window on and off, and
// cuGetProcAddress itself; otherwise every later look-up would bypass the hooks.
void* OtherHookOf(const Request& request) {
  constexpr int kNever = 14000;
  if (Asks(request, "GetProcAddress", 12000, kNever)) {
    return TakeFound(request, TBPROF_CANDIDATE(cuGetProcAddress_v2, 12000));
  }
  if (Asks(request, "GetProcAddress", 11030, 12000)) {
    return TakeFound(request, TBPROF_CANDIDATE(cuGetProcAddress, 11030));
  }
  if (!IsProfilerSwitchWanted()) return request.found;
  if (Asks(request, "ProfilerStart", 4000, kNever)) return TakeFound(request, TBPROF_CANDIDATE(cuProfilerStart, 4000));
  if (Asks(request, "ProfilerStop", 4000, kNever)) return TakeFound(request, TBPROF_CANDIDATE(cuProfilerStop, 4000));
  return request.found;
}

void Replace(const Request& request, void** function) {
  const bool are_wanted = AreCudaHooksWanted();
  if (!are_wanted && !IsProfilerSwitchWanted()) return;
  if (request.name[0] != 'c' || request.name[1] != 'u' || IsOurs(request.found)) return;
  void* hook = OtherHookOf(request);
  if (hook == request.found && are_wanted) hook = HookOf(request);
  *function = hook;
}

}  // namespace

int Hook_cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  const int result = g_cuda.cuGetProcAddress(name, function, version, flags);
  if (result == 0 && name != nullptr && function != nullptr && *function != nullptr) {
    Replace({name, *function, version, flags, g_cuda.cuGetProcAddress}, function);
  }
  return result;
}

int Hook_cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* status) {
  const int result = g_cuda.cuGetProcAddress_v2(name, function, version, flags, status);
  if (result == 0 && name != nullptr && function != nullptr && *function != nullptr) {
    Replace({name, *function, version, flags, &AskSecond}, function);
  }
  return result;
}

// ---- dlsym

namespace {

struct Named {
  const char* symbol;
  void** slot;
  void *hook, *linked;
  bool is_wanted, is_callers;
};

// In a program that is linked with the driver, a look-up by name must return the target of the program's references.
void* TakeNamed(void* found, const Named& named) {
  if (named.is_callers) return named.linked;
  void* const next = RealDlsym(RTLD_NEXT, named.symbol);
  if (next == nullptr) dlerror();
  if (next != nullptr) return next == found ? named.linked : found;
  if (!named.is_wanted || !IsOfDriver(found)) return found;
  return Take(named.slot, found, named.hook);
}

}  // namespace

void* CudaHookOf(const char* symbol, void* found, bool is_callers) {
  if (symbol[0] != 'c' || symbol[1] != 'u' || IsOurs(found)) return found;
  const bool are_wanted = AreCudaHooksWanted(), is_switch_wanted = IsProfilerSwitchWanted();
#define TBPROF_NAMED(symbol_, is_wanted)                                                                            \
  if (SameText(symbol + 2, &#symbol_[2])) {                                                                         \
    return TakeNamed(found, {#symbol_, Slot(&g_cuda.symbol_), Address(&Hook_##symbol_), Address(&Linked_##symbol_), \
                             is_wanted, is_callers});                                                               \
  }
#define TBPROF_CUDA_CALL(symbol_, ...) TBPROF_NAMED(symbol_, are_wanted)
#define TBPROF_CUDA_STREAM_CALL(symbol_, name, since, until, suffix, ...) \
  TBPROF_NAMED(symbol_, are_wanted)                                       \
  TBPROF_NAMED(symbol_##suffix, are_wanted)
#include "wire/cuda_calls.def"
  TBPROF_NAMED(cuGetProcAddress, are_wanted || is_switch_wanted)
  TBPROF_NAMED(cuGetProcAddress_v2, are_wanted || is_switch_wanted)
  TBPROF_NAMED(cuProfilerStart, is_switch_wanted)
  TBPROF_NAMED(cuProfilerStop, is_switch_wanted)
  return found;
}

// ---- linked references

void FindDriverAtStart() {
  // A failed look-up would allocate memory.
  if (Driver() == nullptr) return;
  const void* const found = RealDlsym(RTLD_NEXT, "cuInit");
  if (found == nullptr) dlerror();
  g_driver_at_start = found == nullptr ? nullptr : ObjectAt(found);
}

namespace {

// Returns the target of the caller's reference to `symbol`; null: it is no longer loaded. A target that is the same for
// all callers is stored in `everyones`.
__attribute__((noinline)) void* FindLinked(const char* symbol, void** everyones, void** slot, void* linked,
                                           const void* caller) {
  bool is_everyones = false;
  void* const found = FindForCaller(linked, slot, symbol, kDriver, caller, &is_everyones);
  if (found == nullptr) return nullptr;
  if (is_everyones || (g_driver_at_start != nullptr && ObjectAt(found) == g_driver_at_start)) {
    __atomic_store_n(everyones, found, __ATOMIC_RELEASE);
  }
  if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == nullptr && IsOfDriver(found)) Take(slot, found, nullptr);
  return found;
}

}  // namespace

#define TBPROF_CUDA_LINKED(symbol, parameters, arguments)                                                          \
  int Linked_##symbol parameters {                                                                                 \
    auto* real = __atomic_load_n(&g_linked.symbol, __ATOMIC_ACQUIRE);                                              \
    if (__builtin_expect(real == nullptr, 0)) {                                                                    \
      real = reinterpret_cast<decltype(real)>(FindLinked(#symbol, Slot(&g_linked.symbol), Slot(&g_cuda.symbol),    \
                                                         Address(&Linked_##symbol), __builtin_return_address(0))); \
      if (real == nullptr) return kCudaNotFound;                                                                   \
    }                                                                                                              \
    if (__builtin_expect(real == __atomic_load_n(&g_cuda.symbol, __ATOMIC_ACQUIRE), 1))                            \
      return Hook_##symbol arguments;                                                                              \
    return real arguments;                                                                                         \
  }                                                                                                                \
  TBPROF_EXPORT_HIDDEN(symbol)
#define TBPROF_CUDA_CALL(symbol, name, since, until, parameters, arguments, description) \
  TBPROF_CUDA_LINKED(symbol, parameters, arguments)
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, suffix_since, parameters, arguments, description) \
  TBPROF_CUDA_LINKED(symbol, parameters, arguments)                                                                   \
  TBPROF_CUDA_LINKED(symbol##suffix, parameters, arguments)
#include "wire/cuda_calls.def"
TBPROF_CUDA_OTHERS(TBPROF_CUDA_LINKED)

}  // namespace tbprof
