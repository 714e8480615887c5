// SPDX-License-Identifier: Apache-2.0
//
// Per-architecture parts: the tick counter and the one unlocked read-modify-write that recording needs.
//
// Process: target and launcher. Any thread, any signal handler. No allocation, no system call with the counter; with
// CLOCK_MONOTONIC a vDSO call.
#ifndef TBPROF_WIRE_CLOCK_H_
#define TBPROF_WIRE_CLOCK_H_

#include <stdint.h>
#include <time.h>

namespace tbprof {

// One per session, chosen by the launcher and passed in the session variable; part of the segment header.
enum class ClockKind : uint32_t {
  kMonotonic = 1,  // ticks are nanoseconds of CLOCK_MONOTONIC
  kCounter = 2,    // ticks of the CPU's invariant counter (TSC, CNTVCT_EL0)
};

inline uint64_t ReadCounter() {
#if defined(__x86_64__)
  // Not serialised on purpose: rdtscp or lfence would double the cost, and neighbouring records tolerate the jitter.
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
#error "no tick counter for this architecture"
#endif
}

inline uint64_t ReadMonotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t ReadTicks(ClockKind kind) { return kind == ClockKind::kCounter ? ReadCounter() : ReadMonotonic(); }

// Adds to a variable of this thread and returns the old value, in one instruction, so that a signal handler of the
// same thread can never be given the same value. Not atomic between threads, and therefore not locked.
inline uint64_t FetchAddThisThread(uint64_t* variable, uint64_t add) {
#if defined(__x86_64__)
  asm volatile("xaddq %0, %1" : "+r"(add), "+m"(*variable) : : "cc", "memory");
  return add;
#else
  return __atomic_fetch_add(variable, add, __ATOMIC_RELAXED);
#endif
}

// Adds in one instruction, so that an addition by a signal handler of the same thread is not lost. A compiler that also
// needs the sum would load, add and store.
template <typename Number>
inline void AddThisThread(Number* variable, Number add) {
  static_assert(sizeof(Number) == 8);
#if defined(__x86_64__)
  asm("addq %1, %0" : "+m"(*variable) : "er"(add) : "cc");
#else
  __atomic_fetch_add(variable, add, __ATOMIC_RELAXED);
#endif
}

// Stores `desired` if the variable still holds `expected`, in one instruction for the same reason.
inline bool CompareExchangeThisThread(uint64_t* variable, uint64_t expected, uint64_t desired) {
#if defined(__x86_64__)
  bool equal;
  asm volatile("cmpxchgq %3, %1" : "=@ccz"(equal), "+m"(*variable), "+a"(expected) : "r"(desired) : "memory");
  return equal;
#else
  return __atomic_compare_exchange_n(variable, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

// The compiler may not move memory accesses across this fence: a signal handler of this thread sees them in order.
inline void SignalFence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // namespace tbprof

#endif  // TBPROF_WIRE_CLOCK_H_
