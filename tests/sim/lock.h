// SPDX-License-Identifier: Apache-2.0
//
// Locks, waits and the clock of the simulated libraries.
#ifndef TBPROF_TESTS_SIM_LOCK_H_
#define TBPROF_TESTS_SIM_LOCK_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace tbprof::sim {

// By futex and raw system calls: the waits of a real driver do not go through pthread functions that a profiler of the
// program would take for the program's own.
class Lock {
 public:
  void lock();
  void unlock();
  bool try_lock();

 private:
  std::atomic<uint32_t> word_{0};
};
using Guard = std::lock_guard<Lock>;

int64_t Now();  // CLOCK_MONOTONIC, nanoseconds
void WaitUntil(int64_t time);
void FutexWait(std::atomic<uint32_t>* word, uint32_t value, int64_t until);  // until < 0: no limit
void FutexWake(std::atomic<uint32_t>* word);

}  // namespace tbprof::sim

#endif  // TBPROF_TESTS_SIM_LOCK_H_
