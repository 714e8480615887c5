// SPDX-License-Identifier: Apache-2.0
// burst THREADS SECONDS: waits that are over at once, as fast as can be; with --wait-threshold=0 each is a record.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int g_seconds;

static void* Burst(void* argument) {
  long* turns = argument;
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const struct timespec past = {-1, 0};
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    for (int i = 0; i < 1000; ++i) sem_timedwait(&semaphore, &past);
    *turns += 1000;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) < g_seconds);
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 2;
  g_seconds = argc > 2 ? atoi(argv[2]) : 2;
  pthread_t ids[64];
  static long turns[64][16];
  if (threads < 1 || threads > 64) return 2;
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, Burst, turns[i]);
  long all = 0;
  for (int i = 0; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    all += turns[i][0];
  }
  printf("turns=%ld\n", all);
  return 0;
}
