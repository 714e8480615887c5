// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace tbprof::sim {
namespace {

int64_t RawFutex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* until) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

int64_t Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

void WaitUntil(int64_t time) {
  if (time <= Now()) return;
  const timespec until = {time / 1000000000, time % 1000000000};
  const int saved = errno;
  while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0 && Now() < time) {
  }
  errno = saved;
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t value, int64_t until) {
  const timespec limit = {until / 1000000000, until % 1000000000};
  const int saved = errno;
  RawFutex(word, FUTEX_WAIT_BITSET, value, until < 0 ? nullptr : &limit);
  errno = saved;
}

void FutexWake(std::atomic<uint32_t>* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0); }

// 0 free, 1 taken, 2 taken with waiters.
void Lock::lock() {
  uint32_t seen = 0;
  if (word_.compare_exchange_strong(seen, 1, std::memory_order_acquire)) return;
  if (seen != 2) seen = word_.exchange(2, std::memory_order_acquire);
  while (seen != 0) {
    FutexWait(&word_, 2, -1);
    seen = word_.exchange(2, std::memory_order_acquire);
  }
}

bool Lock::try_lock() {
  uint32_t seen = 0;
  return word_.compare_exchange_strong(seen, 1, std::memory_order_acquire);
}

void Lock::unlock() {
  if (word_.exchange(0, std::memory_order_release) == 2) {
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
  }
}

}  // namespace tbprof::sim
