// SPDX-License-Identifier: Apache-2.0
// Hooks on TensorFlow's C interface for eager execution, which Python's interface calls, too: each operation, and each
// function that tf.function has made (such as Keras's training step), is one call of TFE_Execute. Also hooks on
// tf.data's iterators, from which such a function takes its batches on a thread of tf.data. Rules: RULES.md.
#include <errno.h>

#include "preload/annotations.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/record.h"
#include "preload/resolve.h"
#include "preload/torch_build.h"

namespace tbprof {
namespace {

// The library's name depends on how TensorFlow was built.
constexpr char kLibraries[] = "libtensorflow_cc.so.2\0libtensorflow.so.2\0_pywrap_tensorflow_internal.so\0";

const char* (*g_operation_name)(const void* operation, void* status);

#if defined(__x86_64__)

// absl::Status is returned in a register, or in memory whose address is the first argument: forwarding words handles
// both.
using GetNext = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

constexpr char kIteratorLibraries[] =
    "libtensorflow_framework.so.2\0libtensorflow.so.2\0_pywrap_tensorflow_internal.so\0";
constexpr char kGetNext[] =
    "_ZN10tensorflow4data19DatasetBaseIterator7GetNextEPNS0_15IteratorContextEPSt6vectorINS_6TensorESaIS5_EEPb";

// The real function of each calling object.
struct KnownGetNext {
  const link_map* caller;
  GetNext real;
};
constexpr uint32_t kMostCallers = 4;
KnownGetNext g_get_next[kMostCallers];
uint32_t g_get_next_count;

// Objects enter the loader's list together with their dependencies, so the search begins at the caller. It does not
// take the loader's lock: the lock's holder may wait for a thread of tf.data.
GetNext GetNextNear(const link_map* caller) {
  constexpr int kMostObjects = 512;
  if (void* const found = SymbolOf(caller, kGetNext); found != nullptr) return reinterpret_cast<GetNext>(found);
  const link_map *before = caller, *behind = caller;
  for (int i = 0; i < kMostObjects && (before != nullptr || behind != nullptr); ++i) {
    const link_map* const library = IsNamed(before, "libtensorflow")   ? before
                                    : IsNamed(behind, "libtensorflow") ? behind
                                                                       : nullptr;
    void* const found = library == nullptr ? nullptr : SymbolOf(library, kGetNext);
    if (found != nullptr) return reinterpret_cast<GetNext>(found);
    if (before != nullptr) before = before->l_prev;
    if (behind != nullptr) behind = behind->l_next;
  }
  return nullptr;
}

GetNext RealGetNext(const void* caller) {
  const link_map* const object = ObjectAt(caller);
  const uint32_t count = __atomic_load_n(&g_get_next_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count && i < kMostCallers; ++i) {
    // The function is stored last: if it is null, the entry is not complete.
    const GetNext real = __atomic_load_n(&g_get_next[i].real, __ATOMIC_ACQUIRE);
    if (real != nullptr && g_get_next[i].caller == object) return real;
  }
  const int saved = errno;
  GetNext real = object == nullptr ? nullptr : GetNextNear(object);
  if (real == nullptr) real = reinterpret_cast<GetNext>(FindLateSymbol(kGetNext, kIteratorLibraries));
  errno = saved;
  if (real != nullptr && object != nullptr && count < kMostCallers) {
    const uint32_t place = __atomic_fetch_add(&g_get_next_count, 1, __ATOMIC_ACQ_REL);
    if (place < kMostCallers) {
      g_get_next[place].caller = object;
      __atomic_store_n(&g_get_next[place].real, real, __ATOMIC_RELEASE);
    }
  }
  return real;
}

// The outermost call of this thread. An iterator calls its input iterator for each element.
struct OutermostGetNext {
  const void* frame;  // null: none
  GetNext real;
};
__thread OutermostGetNext t_get_next __attribute__((tls_model("initial-exec")));

#endif

}  // namespace

void Hook_TFE_Execute(void* operation, void** results, int* count, void* status) {
  auto* const real = reinterpret_cast<decltype(g_real.TFE_Execute)>(
      FindForCaller(reinterpret_cast<void*>(&Hook_TFE_Execute), reinterpret_cast<void**>(&g_real.TFE_Execute),
                    "TFE_Execute", kLibraries, __builtin_return_address(0)));
  if (real == nullptr) return;
  ThreadState* thread = nullptr;
  if (Armed(kFamilyAnnotation) && FindLate(&g_operation_name, "TFE_OpGetName", kLibraries)) {
    thread = CurrentThread();
    if (thread == nullptr) CountMissedWait();
  }
  if (thread != nullptr) {
    // The status is written only for an operation that has no name.
    Annotate(thread, AnnotationAction::kPush, kTensorFlowDomain,
             NameNumber(thread, g_operation_name(operation, status)), 0);
  }
  real(operation, results, count, status);
  if (thread == nullptr || !Armed(kFamilyAnnotation)) return;
  // The call may have ended the recording of this thread, or forked.
  thread = CurrentThread();
  if (thread != nullptr) Annotate(thread, AnnotationAction::kPop, kTensorFlowDomain, 0, 0);
}

#if defined(__x86_64__)
uint64_t Hook__ZN10tensorflow4data19DatasetBaseIterator7GetNextEPNS0_15IteratorContextEPSt6vectorINS_6TensorESaIS5_EEPb(
    uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  OutermostGetNext* const outermost = &t_get_next;
  const void* const here = __builtin_frame_address(0);
  // A call that was left other than by a return has its frame below this one, or counts as outermost until a call above
  // it.
  if (outermost->frame > here) return outermost->real(a, b, c, d, e, f);
  const GetNext real = RealGetNext(__builtin_return_address(0));
  // A caller that is bound to this hook was linked with the function's library.
  if (real == nullptr) __builtin_trap();
  outermost->real = real;
  outermost->frame = here;
  const bool armed = Armed(kFamilyAnnotation);
  WaitScope wait;
  if (armed) {
    BeginTimed(
        &wait,
        kOp__ZN10tensorflow4data19DatasetBaseIterator7GetNextEPNS0_15IteratorContextEPSt6vectorINS_6TensorESaIS5_EEPb,
        0, __builtin_return_address(0));
  }
  const uint64_t result = real(a, b, c, d, e, f);
  if (armed) EndTimed(&wait, 0, 0);
  outermost->frame = nullptr;
  return result;
}
#endif

}  // namespace tbprof
