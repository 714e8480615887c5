// SPDX-License-Identifier: Apache-2.0
// Two threads at a barrier and at a semaphore.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "facts.h"

static pthread_barrier_t barrier;
static sem_t semaphore;
static volatile int tid;

static void* AtBarrier(void* argument) {
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  const int result = pthread_barrier_wait(&barrier);  // here: barrier
  printf("barrier: %d\n", result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
  return argument;
}

static void* AtSemaphore(void* argument) {
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  const int result = sem_wait(&semaphore);  // here: semaphore
  printf("semaphore: %d\n", result);
  return argument;
}

int main(void) {
  pthread_barrier_init(&barrier, NULL, 2);
  sem_init(&semaphore, 0, 0);
  ReportAddress("barrier", &barrier);
  ReportAddress("semaphore", &semaphore);
  pthread_t thread;
  pthread_create(&thread, NULL, AtBarrier, NULL);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(20);
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  tid = 0;
  pthread_create(&thread, NULL, AtSemaphore, NULL);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(20);
  sem_post(&semaphore);
  pthread_join(thread, NULL);
  for (int i = 0; i < 100; ++i) {
    sem_post(&semaphore);
    sem_wait(&semaphore);
  }
  const struct timespec past = {1, 0};
  const int result = sem_timedwait(&semaphore, &past);
  printf("timed: %d %s\n", result, strerrorname_np(errno));
  return 0;
}
