// SPDX-License-Identifier: Apache-2.0
// A condition variable as programs linked before glibc 2.3.2 use it: the same names, other code, another layout (the
// variable is a pointer to one that the first call allocates).
#include <pthread.h>

#include "facts.h"

#if defined(__x86_64__)
__asm__(".symver pthread_cond_wait,pthread_cond_wait@GLIBC_2.2.5");
__asm__(".symver pthread_cond_timedwait,pthread_cond_timedwait@GLIBC_2.2.5");
__asm__(".symver pthread_cond_signal,pthread_cond_signal@GLIBC_2.2.5");
__asm__(".symver pthread_cond_broadcast,pthread_cond_broadcast@GLIBC_2.2.5");
__asm__(".symver pthread_cond_init,pthread_cond_init@GLIBC_2.2.5");
__asm__(".symver pthread_cond_destroy,pthread_cond_destroy@GLIBC_2.2.5");
#endif

// What lies behind the first word must not be touched by the old code.
static struct {
  void* condition;
  uint64_t canary[8];
} old;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int tid;
static int go;

static pthread_cond_t* Condition(void) { return (pthread_cond_t*)&old.condition; }

static void* Wait(void* argument) {
  pthread_mutex_lock(&mutex);
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  while (!go) pthread_cond_wait(Condition(), &mutex);
  pthread_mutex_unlock(&mutex);
  return argument;
}

int main(void) {
  memset(old.canary, 0x5a, sizeof(old.canary));
  pthread_cond_init(Condition(), NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, Wait, NULL);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(10);
  pthread_mutex_lock(&mutex);
  go = 1;
  pthread_cond_broadcast(Condition());
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  pthread_mutex_lock(&mutex);
  const struct timespec past = {1, 0};
  printf("timed: %s\n", strerrorname_np(pthread_cond_timedwait(Condition(), &mutex, &past)));
  pthread_mutex_unlock(&mutex);
  int kept = 1;
  for (size_t i = 0; i < 8; ++i) kept &= old.canary[i] == 0x5a5a5a5a5a5a5a5aull;
  printf("canary %s\n", kept ? "kept" : "overwritten");
  return !kept;
}
