// SPDX-License-Identifier: Apache-2.0
// Records waits of libraries that call the futex directly: Abseil, nsync, Rust, `std::atomic::wait`. Rules: RULES.md.
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "preload/hooks.h"
#include "preload/record.h"
#include "preload/seccomp.h"

using namespace tbprof;

extern "C" {

// Null until the real functions are known, and never null again after that.
__attribute__((visibility("hidden"))) long (*tbprof_real_syscall)(long, long, long, long, long, long, long);

// Records a wait on a futex. Called with all seven words, even if the program passed fewer.
__attribute__((visibility("hidden"))) long tbprof_wait_for_futex(long number, long word, long operation, long value,
                                                                 long until, long word2, long value3) {
  WaitScope wait;
  const bool armed = Armed(kFamilyLock);
  if (armed) BeginTimed(&wait, kOp_syscall, static_cast<uint64_t>(word), __builtin_return_address(0));
  const long result = tbprof_real_syscall(number, word, operation, value, until, word2, value3);
  if (armed) EndTimed(&wait, result, result < 0 ? errno : 0);
  return result;
}

// Looks up the real functions, and prepares for a seccomp filter. The call then continues with unchanged arguments.
__attribute__((visibility("hidden"))) void tbprof_prepare_syscall(long number, long operation, long flags,
                                                                  long filter) {
  if (tbprof_real_syscall == nullptr) ResolveRealFunctions();
  if (number != SYS_seccomp) return;
  // libseccomp asks by invalid calls what the kernel can: strict mode with a flag, and no filter.
  const bool strict = operation == SECCOMP_SET_MODE_STRICT && flags == 0 && filter == 0;
  if (strict || (operation == SECCOMP_SET_MODE_FILTER && filter != 0)) PrepareForSeccomp(strict);
}
}

// Jumps to the real function for all calls except waits on a futex, for seccomp after a preparation: after clone and
// vfork a child returns from here, on a stack that has no frame of this function or that its parent still uses. Written
// in assembler: if the caller passes fewer than six arguments, the word behind the return address is the caller's own,
// and a compiler that tail-calls with seven arguments writes this word back, over a value that another thread may have
// stored meanwhile. Futex commands that wait: FUTEX_WAIT 0, LOCK_PI 6, WAIT_BITSET 9, WAIT_REQUEUE_PI 11, LOCK_PI2 13;
// 128 and 256 are flags.
static_assert(sizeof(long) == 8);
#if defined(__x86_64__)
static_assert(SYS_futex == 202 && SYS_seccomp == 317);
asm(R"(
  .pushsection .text
  .globl syscall
  .type syscall, @function
  .p2align 4
syscall:
  .cfi_startproc
  cmpq $202, %rdi
  je 3f
  cmpq $317, %rdi
  je 2f
1:
  movq tbprof_real_syscall(%rip), %rax
  testq %rax, %rax
  je 2f
  jmp *%rax
2:
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %r9
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call tbprof_prepare_syscall
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  movq tbprof_real_syscall(%rip), %rax
  testq %rax, %rax
  je 4f
  jmp *%rax
3:
  movl %edx, %eax
  andl $0xfffffe7f, %eax
  cmpl $13, %eax
  ja 1b
  movl $0x2a41, %r10d
  btl %eax, %r10d
  jnc 1b
  cmpq $0, tbprof_real_syscall(%rip)
  je 2b
  jmp tbprof_wait_for_futex
4:
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  cmpq $-4095, %rax
  jae 5f
  ret
5:
  negl %eax
  pushq %rax
  .cfi_adjust_cfa_offset 8
  call __errno_location@PLT
  popq %rcx
  .cfi_adjust_cfa_offset -8
  movl %ecx, (%rax)
  movq $-1, %rax
  ret
  .cfi_endproc
  .size syscall, . - syscall
  .popsection
)");
#elif defined(__aarch64__)
static_assert(SYS_futex == 98 && SYS_seccomp == 277);
asm(R"(
  .pushsection .text
  .globl syscall
  .type syscall, %function
  .p2align 4
syscall:
  .cfi_startproc
  adrp x9, tbprof_real_syscall
  ldr x9, [x9, :lo12:tbprof_real_syscall]
  cbz x9, 2f
  cmp x0, #277
  b.eq 2f
1:
  cmp x0, #98
  b.eq 3f
  br x9
3:
  and w10, w2, #0xfffffe7f
  cmp w10, #13
  b.hi 4f
  mov w11, #0x2a41
  lsr w11, w11, w10
  tbz w11, #0, 4f
  b tbprof_wait_for_futex
4:
  br x9
2:
  stp x29, x30, [sp, #-80]!
  .cfi_adjust_cfa_offset 80
  .cfi_offset 30, -72
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  str x6, [sp, #64]
  bl tbprof_prepare_syscall
  ldr x6, [sp, #64]
  ldp x4, x5, [sp, #48]
  ldp x2, x3, [sp, #32]
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #80
  .cfi_restore 30
  .cfi_adjust_cfa_offset -80
  adrp x9, tbprof_real_syscall
  ldr x9, [x9, :lo12:tbprof_real_syscall]
  cbnz x9, 1b
  mov x8, x0
  mov x0, x1
  mov x1, x2
  mov x2, x3
  mov x3, x4
  mov x4, x5
  mov x5, x6
  svc #0
  cmn x0, #4095
  b.cs 5f
  ret
5:
  stp x29, x30, [sp, #-32]!
  .cfi_adjust_cfa_offset 32
  .cfi_offset 30, -24
  neg w0, w0
  str x0, [sp, #16]
  bl __errno_location
  ldr x1, [sp, #16]
  str w1, [x0]
  ldp x29, x30, [sp], #32
  .cfi_restore 30
  .cfi_adjust_cfa_offset -32
  mov x0, #-1
  ret
  .cfi_endproc
  .size syscall, . - syscall
  .popsection
)");
#else
#error "no jump for this architecture"
#endif
