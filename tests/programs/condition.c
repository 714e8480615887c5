// SPDX-License-Identifier: Apache-2.0
// Waits on condition variables: one that is signalled, two that time out.
#include <pthread.h>

#include "facts.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int tid;
static int go;

static void* Wait(void* argument) {
  pthread_mutex_lock(&mutex);
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  while (!go) pthread_cond_wait(&condition, &mutex);  // here: wait
  pthread_mutex_unlock(&mutex);
  return argument;
}

static struct timespec Soon(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += 15000000;
  if (time.tv_nsec >= 1000000000) {
    time.tv_nsec -= 1000000000;
    ++time.tv_sec;
  }
  return time;
}

int main(void) {
  ReportAddress("condition", &condition);
  pthread_t thread;
  pthread_create(&thread, NULL, Wait, NULL);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(20);
  pthread_mutex_lock(&mutex);
  go = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  pthread_mutex_lock(&mutex);
  struct timespec until = Soon(CLOCK_REALTIME);
  printf("timed: %s\n", strerrorname_np(pthread_cond_timedwait(&condition, &mutex, &until)));  // here: timedwait
  until = Soon(CLOCK_MONOTONIC);
  printf("clock: %s\n", strerrorname_np(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until)));
  pthread_mutex_unlock(&mutex);
  return 0;
}
