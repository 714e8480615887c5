// SPDX-License-Identifier: Apache-2.0
//
// What a look-up by name gives: our hook for a function that the library has.
//
// Rules: RULES.md.
#include <dlfcn.h>

#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/resolve.h"
#include "preload/state.h"

namespace tbprof {
namespace {

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

// What a look-up of `name` that has found `found` gives: our hook where we have one for it.
void* LateHookOf(const char* name, void* found) {
#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_LATE(family, name_, ...) \
  if (SameText(name, #name_))           \
    return OneOf(#name_, found, reinterpret_cast<void*>(&Hook_##name_), reinterpret_cast<void**>(&g_real.name_));
#include "preload/hooks.def"
  return CudaHookOf(name, found);
}

}  // namespace

}  // namespace tbprof

// ---- dlsym

// A pure jump, so that RTLD_NEXT and RTLD_DEFAULT see the caller's return address, but for names that begin with `cu`
// or `nc` asked of a real handle. Those go by an exact-name table: a prefix would swallow cuDNN's and cuBLAS's
// functions.
extern "C" {

__attribute__((visibility("hidden"))) void* (*tbprof_real_dlsym)(void*, const char*);

__attribute__((visibility("hidden"))) void* (*tbprof_find_dlsym())(void*, const char*) {
  return tbprof::FindRealDlsym();
}

// The real look-up comes first: what the library does not have, we do not have.
__attribute__((visibility("hidden"))) void* tbprof_watched_dlsym(void* handle, const char* name) {
  void* const found = tbprof_real_dlsym(handle, name);
  if (found == nullptr || tbprof::t_thread.phase == tbprof::ThreadPhase::kOwn) return found;
  return tbprof::LateHookOf(name, found);
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
  cmpb $0x63, (%rsi)
  jne 5f
  cmpb $0x75, 1(%rsi)
  je 3f
2:
  jmp *%rax
5:
  cmpb $0x6e, (%rsi)
  jne 2b
  cmpb $0x63, 1(%rsi)
  jne 2b
3:
  leaq 1(%rdi), %rdx
  cmpq $1, %rdx
  jbe 2b
  jmp tbprof_watched_dlsym
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
  cmp w2, #0x63
  b.ne 5f
  ldrb w2, [x1, #1]
  cmp w2, #0x75
  b.eq 3f
2:
  br x9
5:
  cmp w2, #0x6e
  b.ne 2b
  ldrb w2, [x1, #1]
  cmp w2, #0x63
  b.ne 2b
3:
  add x2, x0, #1
  cmp x2, #1
  b.ls 2b
  b tbprof_watched_dlsym
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
