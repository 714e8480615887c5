// SPDX-License-Identifier: Apache-2.0
// many_threads ALIVE MADE: ALIVE threads at once, each with a name and a record; then MADE short ones, eight at a time,
// each with a record. Prints how many there were.
#include <pthread.h>

#include "facts.h"

static pthread_barrier_t barrier;
static int null_fd;

static void* Lives(void* argument) {
  char name[16];
  snprintf(name, sizeof(name), "alive-%ld", (long)argument);
  pthread_setname_np(pthread_self(), name);
  pthread_barrier_wait(&barrier);
  if (write(null_fd, "x", 1) != 1) abort();
  pthread_barrier_wait(&barrier);
  return NULL;
}

static void* IsShort(void* argument) {
  if (write(null_fd, "x", 1) != 1) abort();
  return argument;
}

int main(int argc, char** argv) {
  const long alive = argc > 1 ? atol(argv[1]) : 1000, made = argc > 2 ? atol(argv[2]) : 100000;
  null_fd = open("/dev/null", O_WRONLY);
  pthread_t* threads = calloc((size_t)alive + 8, sizeof(pthread_t));
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  pthread_barrier_init(&barrier, NULL, (unsigned)alive);
  long failed = 0;
  for (long i = 0; i < alive; ++i) failed += pthread_create(&threads[i], &small, Lives, (void*)i) != 0;
  for (long i = 0; i < alive; ++i) pthread_join(threads[i], NULL);
  for (long i = 0; i < made; i += 8) {
    for (long j = 0; j < 8; ++j) failed += pthread_create(&threads[j], &small, IsShort, NULL) != 0;
    for (long j = 0; j < 8; ++j) pthread_join(threads[j], NULL);
  }
  Report("threads", (uint64_t)(alive + made));
  printf("failed %ld\n", failed);
  free(threads);
  return 0;
}
