// SPDX-License-Identifier: Apache-2.0
// One contended lock: the waiter is surely blocked before the holder begins to count its hold time.
#include <pthread.h>

#include "facts.h"

namespace shop {

pthread_mutex_t till = PTHREAD_MUTEX_INITIALIZER;
volatile int waiter_tid, tries;

class Customer {
 public:
  __attribute__((noinline)) int WaitForLock(const char* what) {
    const int result = pthread_mutex_lock(&till);  // here: lock
    printf("%s: %d\n", what, result);
    return result;
  }
};

void* Waiter(void*) {
  __atomic_store_n(&waiter_tid, ThreadId(), __ATOMIC_RELEASE);
  Customer().WaitForLock("waiter");
  pthread_mutex_unlock(&till);
  return nullptr;
}

void* TimedWaiter(void*) {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 20'000'000;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  const int result = pthread_mutex_timedlock(&till, &until);  // here: timedlock
  printf("timed: %s\n", strerrorname_np(result));
  return nullptr;
}

}  // namespace shop

int main() {
  ReportAddress("mutex", &shop::till);
  for (int i = 0; i < 1000; ++i) {
    pthread_mutex_lock(&shop::till);
    pthread_mutex_unlock(&shop::till);
  }
  pthread_mutex_lock(&shop::till);
  pthread_t thread;
  pthread_create(&thread, nullptr, shop::Waiter, nullptr);
  WaitUntilAsleep(WaitForValue(&shop::waiter_tid));
  const double since = Milliseconds();
  SleepUnseen(40);
  Report("held_us", static_cast<uint64_t>((Milliseconds() - since) * 1000));
  pthread_mutex_unlock(&shop::till);
  pthread_join(thread, nullptr);
  pthread_mutex_lock(&shop::till);
  pthread_create(&thread, nullptr, shop::TimedWaiter, nullptr);
  pthread_join(thread, nullptr);
  pthread_mutex_unlock(&shop::till);
}
