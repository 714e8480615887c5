// SPDX-License-Identifier: Apache-2.0
//
// Hooks on the program's own calls of CUPTI (torch.profiler, jax.profiler, other tools). Each call is counted in
// CuptiUse. While tbprof holds CUPTI, the first call makes tbprof release CUPTI before the real call. tbprof's own
// thread takes CUPTI again later (cupti/recorder.cc).
//
// Rules: RULES.md, with one exception: a call may wait for tbprof's last flush. Such a call starts profiling, which
// takes even longer.
#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/resolve.h"
#include "preload/state.h"
#include "wire/clock.h"
#include "wire/cupti_names.h"
#include "wire/cupti_use.h"

namespace tbprof {

CuptiUse g_cupti_use;

namespace {

// The format of FindLate. A table of pointers would be one more page that the loader writes in every process.
constexpr auto kCuptiList = [] {
  struct {
    char names[256];
  } list{};
  size_t at = 0;
  for (const CuptiName& name : kCuptiNames) {
    for (const char* c = name.file; *c != '\0'; ++c) list.names[at++] = *c;
    ++at;
  }
  return list;
}();
constexpr int kCuptiSuccess = 0;
constexpr int kCuptiUnknown = 999;  // CUPTI_ERROR_UNKNOWN: the real function was not found

void (*g_suspend)();

// One call of the program. If a thread is cancelled in the call, the call stays in flight, and tbprof does not take
// CUPTI again.
class ProgramCall {
 public:
  // Calls that CUPTI makes to itself on tbprof's own thread are not calls of the program.
  ProgramCall(CuptiCall call, const void* caller) : counted_(t_thread.phase != ThreadPhase::kOwn) {
    if (!counted_) return;
    if (g_cupti_use.BeginCall(call, caller)) RecordModuleOf(caller);
    if (g_cupti_use.IsHeld()) GiveWay();
  }
  ~ProgramCall() {
    if (counted_) g_cupti_use.EndCall(ReadMonotonic());
  }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;

  void GiveWay() const {
    auto* const suspend = __atomic_load_n(&g_suspend, __ATOMIC_ACQUIRE);
    if (counted_ && suspend != nullptr) suspend();
  }

  void Note(const void* real, int result) const {
    if (__builtin_expect(result != kCuptiSuccess, 0) && counted_) g_cupti_use.NoteResult(real, result);
  }
  bool Changed(int result) const { return counted_ && result == kCuptiSuccess; }

 private:
  // Records the caller's module: the converter names the module of the first call in a gap.
  static __attribute__((noinline)) void RecordModuleOf(const void* caller) {
    ThreadState* const thread = CurrentThread();
    if (thread == nullptr || thread->phase != ThreadPhase::kLive) return;
    NoteCodeAddress(thread, reinterpret_cast<uint64_t>(caller));
  }

  bool counted_;
};

}  // namespace

#define TBPROF_REAL(name)                                                                              \
  reinterpret_cast<decltype(g_real.name)>(FindForCaller(reinterpret_cast<void*>(&Hook_##name),         \
                                                        reinterpret_cast<void**>(&g_real.name), #name, \
                                                        kCuptiList.names, __builtin_return_address(0)))

#define TBPROF_PROGRAM_CALL(name) \
  const ProgramCall call { CuptiCall::k_##name, __builtin_return_address(0) }

// `change`: how a successful call changes g_cupti_use.
#define TBPROF_CUPTI_CALL(name, parameters, arguments, change) \
  int Hook_##name parameters {                                 \
    auto* const real = TBPROF_REAL(name);                      \
    if (real == nullptr) return kCuptiUnknown;                 \
    TBPROF_PROGRAM_CALL(name);                                 \
    const int result = real arguments;                         \
    call.Note(reinterpret_cast<void*>(real), result);          \
    if (call.Changed(result)) change;                          \
    return result;                                             \
  }

void SetYield(void (*suspend)()) { __atomic_store_n(&g_suspend, suspend, __ATOMIC_RELEASE); }

TBPROF_CUPTI_CALL(cuptiSubscribe, (void** subscriber, void* callback, void* user), (subscriber, callback, user),
                  g_cupti_use.AddSubscriber(*subscriber, false))
TBPROF_CUPTI_CALL(cuptiSubscribe_v2, (void** subscriber, void* callback, void* user, void* parameters),
                  (subscriber, callback, user, parameters), g_cupti_use.AddSubscriber(*subscriber, true))
TBPROF_CUPTI_CALL(cuptiUnsubscribe, (void* subscriber), (subscriber), g_cupti_use.RemoveSubscriber(subscriber))
TBPROF_CUPTI_CALL(cuptiFinalize, (), (), g_cupti_use.Finalize())
TBPROF_CUPTI_CALL(cuptiActivityEnable, (uint32_t kind), (kind), g_cupti_use.EnableKind(kind))
TBPROF_CUPTI_CALL(cuptiActivityEnableAndDump, (uint32_t kind), (kind), g_cupti_use.EnableKind(kind))
TBPROF_CUPTI_CALL(cuptiActivityEnableContext, (void* context, uint32_t kind), (context, kind),
                  g_cupti_use.EnableKindOfContext())
TBPROF_CUPTI_CALL(cuptiActivityDisable, (uint32_t kind), (kind), g_cupti_use.DisableKind(kind))
TBPROF_CUPTI_CALL(cuptiActivityDisableContext, (void* context, uint32_t kind), (context, kind), (void)0)
TBPROF_CUPTI_CALL(cuptiActivityEnableDriverApi, (uint32_t callback, uint8_t enable), (callback, enable),
                  g_cupti_use.SetCallRecorded(CuptiUse::kDriverCalls, callback, enable != 0))
TBPROF_CUPTI_CALL(cuptiActivityEnableRuntimeApi, (uint32_t callback, uint8_t enable), (callback, enable),
                  g_cupti_use.SetCallRecorded(CuptiUse::kRuntimeCalls, callback, enable != 0))

TBPROF_CUPTI_CALL(cuptiActivitySetAttribute, (uint32_t attribute, size_t* size, void* value), (attribute, size, value),
                  (void)0)
TBPROF_CUPTI_CALL(cuptiActivityGetAttribute, (uint32_t attribute, size_t* size, void* value), (attribute, size, value),
                  (void)0)
TBPROF_CUPTI_CALL(cuptiSetThreadIdType, (uint32_t type), (type), (void)0)
TBPROF_CUPTI_CALL(cuptiGetThreadIdType, (uint32_t * type), (type), (void)0)
TBPROF_CUPTI_CALL(cuptiActivityRegisterTimestampCallback, (void* callback), (callback), g_cupti_use.SetClock())

TBPROF_CUPTI_CALL(cuptiEnableCallback, (uint32_t enable, void* subscriber, uint32_t domain, uint32_t callback),
                  (enable, subscriber, domain, callback), g_cupti_use.SetCallback(domain, callback, enable != 0))
TBPROF_CUPTI_CALL(cuptiEnableDomain, (uint32_t enable, void* subscriber, uint32_t domain), (enable, subscriber, domain),
                  g_cupti_use.SetCallback(domain, CuptiUse::kEveryCallback, enable != 0))
TBPROF_CUPTI_CALL(cuptiEnableAllDomains, (uint32_t enable, void* subscriber), (enable, subscriber),
                  g_cupti_use.SetAllCallbacks(enable != 0))

int Hook_cuptiActivityRegisterCallbacks(void* requested, void* completed) {
  auto* const real = TBPROF_REAL(cuptiActivityRegisterCallbacks);
  if (real == nullptr) return kCuptiUnknown;
  TBPROF_PROGRAM_CALL(cuptiActivityRegisterCallbacks);
  // Otherwise CUPTI would pass tbprof's remaining buffers to the program's callback.
  call.GiveWay();
  const int result = real(requested, completed);
  call.Note(reinterpret_cast<void*>(real), result);
  if (call.Changed(result)) g_cupti_use.SetBufferCallbacks(requested, completed, reinterpret_cast<void*>(real));
  return result;
}

int Hook_cuptiActivityFlushAll(uint32_t flag) {
  auto* const real = TBPROF_REAL(cuptiActivityFlushAll);
  if (real == nullptr) return kCuptiUnknown;
  TBPROF_PROGRAM_CALL(cuptiActivityFlushAll);
  const uint64_t begun = g_cupti_use.BeginFlush();
  const int result = real(flag);
  if (call.Changed(result)) g_cupti_use.EndFlush(begun);
  return result;
}

// In CUPTI's first versions it flushed one context and stream; in later versions it acts like cuptiActivityFlushAll.
TBPROF_CUPTI_CALL(cuptiActivityFlush, (void* context, uint32_t stream, uint32_t flag), (context, stream, flag), (void)0)

}  // namespace tbprof

// References to CUPTI carry a symbol version: CUPTI's soname, which up to CUDA 11 includes the minor version.
#define TBPROF_EXPORT_11(name, minor) TBPROF_EXPORT_AS(name, "tbprof_export_11_" #minor "_", "libcupti.so.11." #minor)
#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_PUBLIC(...)
#define TBPROF_NCCL(...)
#define TBPROF_BY_NAME(...)
#define TBPROF_LATE(family, name, ...)                          \
  TBPROF_EXPORT_11(name, 0)                                     \
  TBPROF_EXPORT_11(name, 1)                                     \
  TBPROF_EXPORT_11(name, 2)                                     \
  TBPROF_EXPORT_11(name, 3)                                     \
  TBPROF_EXPORT_11(name, 4)                                     \
  TBPROF_EXPORT_11(name, 5)                                     \
  TBPROF_EXPORT_11(name, 6)                                     \
  TBPROF_EXPORT_11(name, 7)                                     \
  TBPROF_EXPORT_11(name, 8)                                     \
  TBPROF_EXPORT_AS(name, "tbprof_export_12_", "libcupti.so.12") \
  TBPROF_EXPORT_AS(name, "tbprof_export_13_", "libcupti.so.13") \
  TBPROF_EXPORT_AS(name, "tbprof_export_14_", "libcupti.so.14") \
  TBPROF_EXPORT_HIDDEN(name)
#include "preload/hooks.def"
