// SPDX-License-Identifier: Apache-2.0
// What a sanitizer reports, unless a suppression names the function KnownPlace. Built by sanitizers_test.cc.
//   suppressed leak FUNCTION BYTES | race | thread | overflow | sum
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* kind;
static const char* function = "";
static size_t bytes;

__attribute__((noinline)) static void* Allocate(void) {
  void* block = NULL;
  if (strcmp(function, "malloc") == 0) block = malloc(bytes);
  if (strcmp(function, "calloc") == 0) block = calloc(1, bytes);
  if (strcmp(function, "realloc") == 0) block = realloc(NULL, bytes);
  if (strcmp(function, "reallocarray") == 0) block = reallocarray(NULL, bytes, 1);
  if (strcmp(function, "memalign") == 0) block = memalign(64, bytes);
  if (strcmp(function, "aligned_alloc") == 0) block = aligned_alloc(64, bytes);
  if (strcmp(function, "posix_memalign") == 0 && posix_memalign(&block, 64, bytes) != 0) block = NULL;
  return block;
}

static void* Sleep(void* argument) { return argument; }

static int shared;
static void* Write(void* argument) {
  for (int i = 0; i < 1000; ++i) ++shared;
  return argument;
}

__attribute__((noinline)) static void KnownPlace(pthread_t* thread) {
  if (strcmp(kind, "leak") == 0) {
    // Of so many, no stale word on the stack holds all.
    for (int i = 0; i < 50; ++i) {
      void* volatile block = Allocate();
      block = NULL;
      (void)block;
    }
  } else if (strcmp(kind, "race") == 0) {
    pthread_create(&thread[0], NULL, Write, NULL);
    pthread_create(&thread[1], NULL, Write, NULL);
  } else if (strcmp(kind, "thread") == 0) {
    pthread_create(&thread[0], NULL, Sleep, NULL);
  } else if (strcmp(kind, "overflow") == 0) {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "012345678901234567890123", 24) != 24) exit(8);
    char* block = malloc(20);
    if (read(ends[0], block, 24) != 24) exit(9);
    free(block);
    close(ends[0]);
    close(ends[1]);
  } else if (strcmp(kind, "sum") == 0) {
    volatile int by = 31;
    volatile int much = INT32_MAX;
    much += by;
  }
}

int main(int argc, char** argv) {
  kind = argc > 1 ? argv[1] : "";
  if (argc > 3) {
    function = argv[2];
    bytes = strtoul(argv[3], NULL, 10);
  }
  pthread_t threads[2];
  KnownPlace(threads);
  if (strcmp(kind, "race") == 0) {
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
  }
  if (strcmp(kind, "thread") == 0) usleep(100000);
  printf("done %s %s\n", kind, function);
  return 0;
}
