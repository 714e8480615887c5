// SPDX-License-Identifier: Apache-2.0
// A pipe, whose reader is blocked before the writer writes; reads that end at end of file and that fail.
#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>

#include "facts.h"

static int ends[2];
static volatile int tid;

static void* Read(void* argument) {
  char data[100];
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  *(ssize_t*)argument = read(ends[0], data, sizeof(data));  // here: slow read
  return argument;
}

int main(void) {
  if (pipe(ends) != 0) return 1;
  Report("in", (uint64_t)ends[0]);
  Report("out", (uint64_t)ends[1]);
  pthread_t thread;
  ssize_t got = 0;
  pthread_create(&thread, NULL, Read, &got);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(20);
  printf("write: %zd\n", write(ends[1], "twenty-three bytes long", 23));  // here: write
  pthread_join(thread, NULL);
  printf("read: %zd\n", got);
  struct iovec out[3] = {{(void*)"abc", 3}, {(void*)"", 0}, {(void*)"defgh", 5}};
  printf("writev: %zd\n", writev(ends[1], out, 3));
  char a[2], b[10];
  struct iovec in[2] = {{a, sizeof(a)}, {b, sizeof(b)}};
  printf("readv: %zd\n", readv(ends[0], in, 2));
  close(ends[1]);
  printf("at the end: %zd\n", read(ends[0], a, sizeof(a)));
  errno = 0;
  const ssize_t result = read(-1, a, sizeof(a));
  printf("no descriptor: %zd %s\n", result, strerrorname_np(errno));
  return 0;
}
