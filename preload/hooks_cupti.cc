// SPDX-License-Identifier: Apache-2.0
//
// The hook on dlsym: a look-up by name returns a hook for a function that the library has.
//
// Rules: RULES.md.
#include <dlfcn.h>

#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/resolve.h"
#include "preload/state.h"

namespace tbprof {
namespace {

// A process may contain a library twice. The hook stands for the first function that was looked up, unless the
// program's own references are bound to another one. In all other cases the caller gets the function that was found.
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

// Returns the hook for `name`, or `found` if there is no hook. `is_callers`: the caller's own references are bound to
// `found`.
void* LateHookOf(const char* name, void* found, bool is_callers) {
#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_LATE(family, name_, ...)                                                             \
  if (SameText(name, #name_)) {                                                                     \
    void* const hook = reinterpret_cast<void*>(&Hook_##name_);                                      \
    return is_callers ? hook : OneOf(#name_, found, hook, reinterpret_cast<void**>(&g_real.name_)); \
  }
// The hook of a BY_NAME row knows only the function that was looked up.
#define TBPROF_BY_NAME(family, name_, ...)                                                           \
  if (SameText(name, #name_)) {                                                                      \
    void* const hook = reinterpret_cast<void*>(&Hook_##name_);                                       \
    return is_callers ? found : OneOf(#name_, found, hook, reinterpret_cast<void**>(&g_real.name_)); \
  }
#include "preload/hooks.def"
  return CudaHookOf(name, found, is_callers);
}

}  // namespace

}  // namespace tbprof

// ---- dlsym

// Jumps to the real dlsym, so that RTLD_NEXT and RTLD_DEFAULT see the caller's return address, except for names that
// begin with `cu`, `nc`, `In`, `XGB` or `LGB`. These are compared with a table of exact names: a prefix would also
// match functions of cuDNN and cuBLAS. For RTLD_DEFAULT a hook replaces a function of the global scope, which every
// caller gets, or one that the caller is linked with; for RTLD_NEXT a function behind this library, if the caller is
// before this library. Otherwise the jump gives libc's result.
extern "C" {

__attribute__((visibility("hidden"))) void* (*tbprof_real_dlsym)(void*, const char*);

__attribute__((visibility("hidden"))) void* (*tbprof_find_dlsym())(void*, const char*) {
  return tbprof::FindRealDlsym();
}

// The real look-up comes first: a name that the library lacks must not be found here either.
__attribute__((visibility("hidden"))) void* tbprof_watched_dlsym(void* handle, const char* name) {
  // NVTX looks this name up in the library that its variable names, which is this library.
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

// For RTLD_DEFAULT and RTLD_NEXT. Null: libc's result is the right one.
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
  .macro tbprof_call_keeping_arguments function
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call \function
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  .endm

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
  cmpb $0x58, %dl
  je 10f
  cmpb $0x4c, %dl
  je 10f
2:
  jmp *%rax
10:
  cmpb $0x47, 1(%rsi)
  jne 2b
  cmpb $0x42, 2(%rsi)
  je 3f
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
  tbprof_call_keeping_arguments tbprof_hook_of_scope
  testq %rax, %rax
  jne 9f
  movq tbprof_real_dlsym(%rip), %rax
  jmp *%rax
9:
  ret
4:
  tbprof_call_keeping_arguments tbprof_find_dlsym
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
  cmp w2, #0x58
  b.eq 10f
  cmp w2, #0x4c
  b.eq 10f
2:
  br x9
10:
  ldrb w2, [x1, #1]
  cmp w2, #0x47
  b.ne 2b
  ldrb w2, [x1, #2]
  cmp w2, #0x42
  b.ne 2b
  b 11f
5:
  ldrb w2, [x1, #1]
  cmp w2, w3
  b.ne 2b
11:
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
