// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of the calling thread: registers and the stack above them, copied as they are. Unwinding happens in the
// converter.
//
// Process: target, any thread. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_STACK_H_
#define TBPROF_PRELOAD_STACK_H_

#include <stdint.h>

#include "preload/state.h"
#include "wire/records.h"

namespace tbprof {

// The order is that of wire/records.h. Inlined, so that the values are those of the calling function.
__attribute__((always_inline)) inline void CaptureRegisters(uint64_t registers[kSnapshotRegisters]) {
#if defined(__x86_64__)
  asm volatile(
      "movq %%rbx, 0(%0)\n\t"
      "movq %%rbp, 8(%0)\n\t"
      "movq %%r12, 16(%0)\n\t"
      "movq %%r13, 24(%0)\n\t"
      "movq %%r14, 32(%0)\n\t"
      "movq %%r15, 40(%0)\n\t"
      "movq %%rsp, 48(%0)\n\t"
      "leaq 0(%%rip), %%rax\n\t"
      "movq %%rax, 56(%0)\n\t"
      :
      : "r"(registers)
      : "rax", "memory");
#elif defined(__aarch64__)
  asm volatile(
      "stp x19, x20, [%0, 0]\n\t"
      "stp x21, x22, [%0, 16]\n\t"
      "stp x29, x30, [%0, 32]\n\t"
      "mov x9, sp\n\t"
      "adr x10, .\n\t"
      "stp x9, x10, [%0, 48]\n\t"
      :
      : "r"(registers)
      : "x9", "x10", "memory");
#else
#error "no register capture for this architecture"
#endif
}

// Number of bytes that can be read upwards from `from`: in the thread's own stack up to its top; elsewhere (a
// coroutine, an alternate signal stack) up to the end of the page, because the next page may not be mapped.
inline uint64_t ReadableStack(const ThreadState* thread, uint64_t from) {
  uint64_t bytes =
      from >= thread->stack_low && from < thread->stack_top ? thread->stack_top - from : kPage - from % kPage;
  if (bytes > kSnapshotBytes) bytes = kSnapshotBytes;
  return bytes & ~uint64_t{7};
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_STACK_H_
