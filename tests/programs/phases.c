// SPDX-License-Identifier: Apache-2.0
// phases FAST THREADS NAP_US: FAST bytes through a pipe, then THREADS threads (and the main thread) sleep NAP_US again
// and again until there is a file `stop` (exit status 5) or `crash` (SIGSEGV). Facts: `fast` when the first phase is
// over; `warm` soon after; `naps`, the number of sleeps that returned.
#include <pthread.h>

#include "facts.h"

static volatile int stop;
static useconds_t nap;

static void* Sleep(void* argument) {
  uint64_t* naps = argument;
  while (!stop) {
    usleep(nap);
    ++*naps;
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const long fast = atol(argv[1]);
  long threads = atol(argv[2]);
  if (threads > 64) threads = 64;
  nap = (useconds_t)atol(argv[3]);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  char byte = 'x';
  for (long i = 0; i < fast; ++i) {
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 1;
  }
  Report("fast", (uint64_t)fast);
  pthread_t ids[64];
  static uint64_t counts[64];
  for (long i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, Sleep, &counts[i]);
  uint64_t naps = 0;
  for (long i = 0;; ++i) {
    usleep(nap);
    ++naps;
    if (i == 20) Report("warm", 1);
    if (access("crash", F_OK) == 0) *(volatile int*)8 = 1;
    if (access("stop", F_OK) == 0) break;
  }
  stop = 1;
  for (long i = 0; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    naps += counts[i];
  }
  Report("naps", naps);
  return 5;
}
