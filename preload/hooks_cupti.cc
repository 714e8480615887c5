// SPDX-License-Identifier: Apache-2.0
//
// CUPTI has one slot. A program that wants it for itself (torch.profiler, JAX) gets it at its first try: ours steps
// aside before the call is handed on, and comes back when the program is done.
//
// Rules: RULES.md, but that a program's own call of CUPTI may wait for our last flush: it is a start of profiling,
// which takes longer still.
#include <dlfcn.h>

#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/resolve.h"
#include "preload/state.h"
#include "wire/cupti_names.h"

namespace tbprof {
namespace {

// As FindLate takes them; a table of pointers would be one more page that the loader writes in every process.
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
constexpr int kCuptiUnknown = 999;  // what CUPTI answers where nothing works

int32_t g_subscribers;  // of the program's
bool g_registered;      // one of them is there for activities that are recorded without subscribing
void (*g_step_aside)();
void (*g_come_back)();

void BeforeProgram() {
  __atomic_fetch_add(&g_subscribers, 1, __ATOMIC_ACQ_REL);
  if (auto* const step_aside = __atomic_load_n(&g_step_aside, __ATOMIC_ACQUIRE); step_aside != nullptr) step_aside();
}

void AfterProgram() {
  int32_t count = __atomic_load_n(&g_subscribers, __ATOMIC_ACQUIRE);
  // Its end may be told twice: by unsubscribing and by cuptiFinalize.
  while (count > 0 &&
         !__atomic_compare_exchange_n(&g_subscribers, &count, count - 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  if (count != 1) return;
  if (auto* const come_back = __atomic_load_n(&g_come_back, __ATOMIC_ACQUIRE); come_back != nullptr) come_back();
}

// A process may have a library twice. The hook stands for one that was looked up, the first; not if the program's own
// references lead to another.
void* OneOf(const char* name, void* found, void* hook, void** looked_up) {
  if (found == hook) return found;
  void* const linked = RealDlsym(RTLD_NEXT, name);
  if (linked == nullptr) dlerror();
  if (linked != nullptr && linked != found) return found;
  void* first = nullptr;
  if (!__atomic_compare_exchange_n(looked_up, &first, found, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
      first != found) {
    return found;
  }
  return hook;
}

// The subscriber that comes after the registration is the same.
bool TakeRegistered() { return __atomic_exchange_n(&g_registered, false, __ATOMIC_ACQ_REL); }

// What a look-up of `name` that has found `found` gives: our hook where we have one for it. `is_callers`: the caller's
// own references lead to the same.
void* LateHookOf(const char* name, void* found, bool is_callers) {
#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_LATE(family, name_, ...)                                                             \
  if (SameText(name, #name_)) {                                                                     \
    void* const hook = reinterpret_cast<void*>(&Hook_##name_);                                      \
    return is_callers ? hook : OneOf(#name_, found, hook, reinterpret_cast<void**>(&g_real.name_)); \
  }
#include "preload/hooks.def"
  return CudaHookOf(name, found, is_callers);
}

}  // namespace

#define TBPROF_REAL(name)                                                                              \
  reinterpret_cast<decltype(g_real.name)>(FindForCaller(reinterpret_cast<void*>(&Hook_##name),         \
                                                        reinterpret_cast<void**>(&g_real.name), #name, \
                                                        kCuptiList.names, __builtin_return_address(0)))

bool SetYield(void (*step_aside)(), void (*come_back)()) {
  __atomic_store_n(&g_come_back, come_back, __ATOMIC_RELEASE);
  __atomic_store_n(&g_step_aside, step_aside, __ATOMIC_RELEASE);
  return __atomic_load_n(&g_subscribers, __ATOMIC_ACQUIRE) > 0;
}

int Hook_cuptiSubscribe(void** subscriber, void* callback, void* user) {
  auto* const real = TBPROF_REAL(cuptiSubscribe);
  if (real == nullptr) return kCuptiUnknown;
  BeforeProgram();
  const int result = real(subscriber, callback, user);
  if (result != 0 || TakeRegistered()) AfterProgram();
  return result;
}

int Hook_cuptiSubscribe_v2(void** subscriber, void* callback, void* user, void* parameters) {
  auto* const real = TBPROF_REAL(cuptiSubscribe_v2);
  if (real == nullptr) return kCuptiUnknown;
  BeforeProgram();
  const int result = real(subscriber, callback, user, parameters);
  if (result != 0 || TakeRegistered()) AfterProgram();
  return result;
}

// Activities are recorded without a subscriber, too: then this is where the program begins.
int Hook_cuptiActivityRegisterCallbacks(void* requested, void* completed) {
  auto* const real = TBPROF_REAL(cuptiActivityRegisterCallbacks);
  if (real == nullptr) return kCuptiUnknown;
  const bool begins = __atomic_load_n(&g_subscribers, __ATOMIC_ACQUIRE) == 0;
  if (begins) BeforeProgram();
  const int result = real(requested, completed);
  if (begins && result != 0) AfterProgram();
  if (begins && result == 0) __atomic_store_n(&g_registered, true, __ATOMIC_RELEASE);
  return result;
}

int Hook_cuptiUnsubscribe(void* subscriber) {
  auto* const real = TBPROF_REAL(cuptiUnsubscribe);
  if (real == nullptr) return kCuptiUnknown;
  const int result = real(subscriber);
  AfterProgram();
  return result;
}

int Hook_cuptiFinalize() {
  auto* const real = TBPROF_REAL(cuptiFinalize);
  if (real == nullptr) return kCuptiUnknown;
  // It takes everything down, ours too.
  BeforeProgram();
  const int result = real();
  AfterProgram();
  return result;
}

}  // namespace tbprof

// References to CUPTI have a version, its soname.
#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_PUBLIC(...)
#define TBPROF_NCCL(...)
#define TBPROF_LATE(family, name, ...)                          \
  TBPROF_EXPORT_AS(name, "tbprof_export_12_", "libcupti.so.12") \
  TBPROF_EXPORT_AS(name, "tbprof_export_13_", "libcupti.so.13") \
  TBPROF_EXPORT_AS(name, "tbprof_export_14_", "libcupti.so.14") \
  TBPROF_EXPORT_HIDDEN(name)
#include "preload/hooks.def"

// ---- dlsym

// A pure jump, so that RTLD_NEXT and RTLD_DEFAULT see the caller's return address, but for names that begin with `cu`,
// `nc` or `In`. Those go by an exact-name table: a prefix would swallow cuDNN's and cuBLAS's functions. For
// RTLD_DEFAULT a hook stands for what is in the global scope, which is every caller's, or for what the caller is linked
// with; for RTLD_NEXT for what is behind us, if the caller is before us. Else the jump decides.
extern "C" {

__attribute__((visibility("hidden"))) void* (*tbprof_real_dlsym)(void*, const char*);

__attribute__((visibility("hidden"))) void* (*tbprof_find_dlsym())(void*, const char*) {
  return tbprof::FindRealDlsym();
}

// The real look-up comes first: what the library does not have, we do not have.
__attribute__((visibility("hidden"))) void* tbprof_watched_dlsym(void* handle, const char* name) {
  // NVTX asks the library that its variable names, which is this one.
  if (name[0] == 'I') {
    if (!tbprof::SameText(name, "InitializeInjectionNvtx2") || handle != tbprof::ObjectAt(tbprof::NvtxInjection())) {
      return tbprof_real_dlsym(handle, name);
    }
    return tbprof::NvtxInjection();
  }
  void* const found = tbprof_real_dlsym(handle, name);
  if (found == nullptr || tbprof::t_thread.phase == tbprof::ThreadPhase::kOwn) return found;
  return tbprof::LateHookOf(name, found, false);
}

// For RTLD_DEFAULT and RTLD_NEXT. Null: libc's answer is the right one.
__attribute__((visibility("hidden"))) void* tbprof_hook_of_scope(void* handle, const char* name, const void* caller) {
  using namespace tbprof;
  if (name[0] == 'I' || t_thread.phase == ThreadPhase::kOwn) return nullptr;
  if (handle == RTLD_NEXT && !CameBefore(ObjectAt(caller), ObjectAt(NvtxInjection()))) return nullptr;
  void* found = tbprof_real_dlsym(handle, name);
  const bool is_global = found != nullptr;
  if (!is_global && handle == RTLD_DEFAULT) found = FindOwn(name, caller);
  void* const hook = found == nullptr ? nullptr : LateHookOf(name, found, !is_global);
  if (!is_global) dlerror();
  return hook == found ? nullptr : hook;
}
}

#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .globl dlsym
  .type dlsym, @function
  .p2align 4
dlsym:
  .cfi_startproc
  movq tbprof_real_dlsym(%rip), %rax
  testq %rax, %rax
  je 4f
1:
  movzbl (%rsi), %edx
  cmpb $0x63, %dl
  je 5f
  cmpb $0x6e, %dl
  je 6f
  cmpb $0x49, %dl
  je 7f
2:
  jmp *%rax
5:
  cmpb $0x75, 1(%rsi)
  je 3f
  jmp *%rax
6:
  cmpb $0x63, 1(%rsi)
  je 3f
  jmp *%rax
7:
  cmpb $0x6e, 1(%rsi)
  jne 2b
3:
  leaq 1(%rdi), %rdx
  cmpq $1, %rdx
  jbe 8f
  jmp tbprof_watched_dlsym
8:
  movq (%rsp), %rdx
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call tbprof_hook_of_scope
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jne 9f
  movq tbprof_real_dlsym(%rip), %rax
  jmp *%rax
9:
  ret
4:
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call tbprof_find_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jne 1b
  ret
  .cfi_endproc
  .size dlsym, . - dlsym
  .popsection
)");
#elif defined(__aarch64__)
asm(R"(
  .pushsection .text
  .globl dlsym
  .type dlsym, %function
  .p2align 4
dlsym:
  .cfi_startproc
  adrp x9, tbprof_real_dlsym
  ldr x9, [x9, :lo12:tbprof_real_dlsym]
  cbz x9, 4f
1:
  ldrb w2, [x1]
  mov w3, #0x75
  cmp w2, #0x63
  b.eq 5f
  mov w3, #0x63
  cmp w2, #0x6e
  b.eq 5f
  mov w3, #0x6e
  cmp w2, #0x49
  b.eq 5f
2:
  br x9
5:
  ldrb w2, [x1, #1]
  cmp w2, w3
  b.ne 2b
  add x2, x0, #1
  cmp x2, #1
  b.ls 8f
  b tbprof_watched_dlsym
8:
  stp x29, x30, [sp, #-32]!
  .cfi_adjust_cfa_offset 32
  .cfi_offset 30, -24
  stp x0, x1, [sp, #16]
  mov x2, x30
  bl tbprof_hook_of_scope
  mov x9, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_restore 30
  .cfi_adjust_cfa_offset -32
  cbnz x9, 9f
  adrp x9, tbprof_real_dlsym
  ldr x9, [x9, :lo12:tbprof_real_dlsym]
  br x9
9:
  mov x0, x9
  ret
4:
  stp x29, x30, [sp, #-32]!
  .cfi_adjust_cfa_offset 32
  .cfi_offset 30, -24
  stp x0, x1, [sp, #16]
  bl tbprof_find_dlsym
  mov x9, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_restore 30
  .cfi_adjust_cfa_offset -32
  cbnz x9, 1b
  mov x0, #0
  ret
  .cfi_endproc
  .size dlsym, . - dlsym
  .popsection
)");
#endif
