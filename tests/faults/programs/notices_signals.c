// SPDX-License-Identifier: Apache-2.0
// notices_signals [SIGNAL]: handlers for every signal but that one, calls that an interruption would end, and much to
// record; until a file `stop` is in its directory. Prints what it noticed.
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "facts.h"

static volatile int counts[65], stop, interrupted;

static void Notice(int signal) { __atomic_fetch_add(&counts[signal], 1, __ATOMIC_RELAXED); }

static void* Waits(void* argument) {
  int ends[2];
  if (pipe(ends) != 0) return NULL;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    if (usleep(500) != 0 && errno == EINTR) __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
    char byte = 'x';
    if (write(ends[1], &byte, 1) < 0 || read(ends[0], &byte, 1) < 0)
      __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
    free(malloc(3000));
  }
  return argument;
}

int main(int argc, char** argv) {
  const int left = argc > 1 ? atoi(argv[1]) : 0;
  struct sigaction action = {.sa_handler = Notice};
  for (int signal = 1; signal < 65; ++signal) {
    if (signal != left) sigaction(signal, &action, NULL);
  }
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Waits, NULL);
  Report("pid", (uint64_t)getpid());
  while (access("stop", F_OK) != 0) {
    if (usleep(2000) != 0) ++interrupted;
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  for (int signal = 1; signal < 65; ++signal) {
    if (counts[signal] > 0) printf("signal %d: %d\n", signal, counts[signal]);
  }
  printf("interrupted %d\n", interrupted);
  return 0;
}
