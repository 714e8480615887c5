// SPDX-License-Identifier: Apache-2.0
//
// System calls without libc: no cancellation point, errno untouched. Rules: preload/RULES.md.
//
// Process: target (both libraries), any thread, any signal handler. Results below 0 are negated error numbers.
#ifndef TBPROF_WIRE_RAW_H_
#define TBPROF_WIRE_RAW_H_

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

namespace tbprof::raw {

inline long Call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "no system call sequence for this architecture"
#endif
}

inline long Pointer(const void* pointer) { return static_cast<long>(reinterpret_cast<intptr_t>(pointer)); }

inline int GetPid() { return static_cast<int>(Call(SYS_getpid)); }
inline int GetTid() { return static_cast<int>(Call(SYS_gettid)); }
// CPU time of this thread; 0: unavailable.
inline uint64_t ThreadCpuNs() {
  timespec now{};
  if (Call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, Pointer(&now)) != 0) return 0;
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}
inline void Close(int fd) { Call(SYS_close, fd); }

}  // namespace tbprof::raw

#endif  // TBPROF_WIRE_RAW_H_
