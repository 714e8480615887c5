// SPDX-License-Identifier: Apache-2.0
// A reader that waits for a writer, and a writer that waits for a reader.
#include <pthread.h>

#include "facts.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile int tid;

static void* Read(void* argument) {
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  printf("read: %d\n", pthread_rwlock_rdlock(&lock));  // here: rdlock
  pthread_rwlock_unlock(&lock);
  return argument;
}

static void* Write(void* argument) {
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  printf("write: %d\n", pthread_rwlock_wrlock(&lock));  // here: wrlock
  pthread_rwlock_unlock(&lock);
  return argument;
}

static void Contend(void* (*routine)(void*)) {
  pthread_t thread;
  tid = 0;
  pthread_create(&thread, NULL, routine, NULL);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(20);
  pthread_rwlock_unlock(&lock);
  pthread_join(thread, NULL);
}

int main(void) {
  ReportAddress("lock", &lock);
  for (int i = 0; i < 100; ++i) {
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
  }
  pthread_rwlock_wrlock(&lock);
  Contend(Read);
  pthread_rwlock_rdlock(&lock);
  Contend(Write);
  struct timespec past = {1, 0}, invalid = {1, 2000000000};
  pthread_rwlock_wrlock(&lock);
  printf("timed out: %s\n", strerrorname_np(pthread_rwlock_timedrdlock(&lock, &past)));
  printf("deadlock: %s\n", strerrorname_np(pthread_rwlock_wrlock(&lock)));
  pthread_rwlock_unlock(&lock);
  printf("invalid time: %s\n", strerrorname_np(pthread_rwlock_timedwrlock(&lock, &invalid)));
  return 0;
}
