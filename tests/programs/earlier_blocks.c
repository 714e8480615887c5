// SPDX-License-Identifier: Apache-2.0
// earlier_blocks: has 150 blocks of 1 MiB at a time, keeps 100 of them, 20 by a thread that has ended; frees 40 when
// there is a file `free`, ends when there is a file `stop`. Facts: `ready`, `freed`.
#include <pthread.h>

#include "facts.h"

enum { kBlock = 1 << 20, kKept = 100, kOfThread = 20, kMore = 50, kFreed = 40 };
static void* blocks[kKept + kMore];

static int IsThere(const char* name) { return syscall(SYS_faccessat, AT_FDCWD, name, F_OK) == 0; }

static void Allocate(int first, int count) {
  for (int i = first; i < first + count; ++i) blocks[i] = malloc(kBlock);
}

static void* AllocateSome(void* unused) {
  Allocate(0, kOfThread);
  return unused;
}

static void WaitFor(const char* name) {
  for (int i = 0; i < 60000 && !IsThere(name); ++i) usleep(2000);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, AllocateSome, NULL);
  pthread_join(thread, NULL);
  Allocate(kOfThread, kKept + kMore - kOfThread);
  for (int i = kKept; i < kKept + kMore; ++i) free(blocks[i]);
  Report("ready", 1);
  WaitFor("free");
  for (int i = 0; i < kFreed; ++i) free(blocks[i]);
  Report("freed", 1);
  WaitFor("stop");
  return 6;
}
