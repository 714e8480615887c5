// SPDX-License-Identifier: Apache-2.0
// hot_paths LOAD TURNS [ARGUMENT]: one call, again and again, timed inside the program. Prints nanoseconds per turn:
// the median of its batches and the shortest. Run bare, under a library that only forwards, under tbprof and under its
// peers by scripts/bench.sh.
//   small       malloc(48) and free of it; a turn is the pair
//   blocks      the same with 256 blocks of 16 to 1024 bytes alive
//   lock        a free mutex locked and unlocked
//   contended   two threads on one mutex, held for ARGUMENT ns; TURNS of each thread
//   wait        a semaphore waited for until a time before 1970: over without the kernel
//   annotation  a range of NVTX pushed and popped; where its header is
//   clock       the clock read twice, as for each range
//   spawn       posix_spawn of /bin/true and the wait for it
// Of all but `contended`, ARGUMENT is the milliseconds to wait between two batches, busily, since a core that has slept
// is slower: what was recorded is drained then, so that a batch shows the cost of recording and not the lack of room.
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif
extern char** environ;

enum { kBatches = 50 };

static int64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void* volatile g_block;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t g_semaphore;
static void* g_blocks[256];
static uint32_t g_sizes[4096];

static void Small(long turns) {
  for (long i = 0; i < turns; ++i) {
    g_block = malloc(48);
    free(g_block);
  }
}

static void Blocks(long turns) {
  static uint32_t at;
  for (long i = 0; i < turns; ++i, ++at) {
    free(g_blocks[at & 255]);
    g_blocks[at & 255] = malloc(g_sizes[at & 4095]);
  }
}

static void Lock(long turns) {
  for (long i = 0; i < turns; ++i) {
    pthread_mutex_lock(&g_mutex);
    pthread_mutex_unlock(&g_mutex);
  }
}

static void Wait(long turns) {
  // glibc answers for the kernel, which takes no times before 1970.
  const struct timespec past = {-1, 0};
  for (long i = 0; i < turns; ++i) sem_timedwait(&g_semaphore, &past);
}

static void Annotation(long turns) {
#ifdef HAVE_NVTX
  for (long i = 0; i < turns; ++i) {
    nvtxRangePushA("forward of a layer");
    nvtxRangePop();
  }
#else
  (void)turns;
  exit(77);
#endif
}

static void Clock(long turns) {
  for (long i = 0; i < turns; ++i) {
#if defined(__x86_64__)
    g_block = (void*)(uintptr_t)(__builtin_ia32_rdtsc() + __builtin_ia32_rdtsc());
#else
    g_block = (void*)(uintptr_t)(Now() + Now());
#endif
  }
}

static void Spawn(long turns) {
  char* const arguments[] = {"/bin/true", NULL};
  for (long i = 0; i < turns; ++i) {
    pid_t child;
    int status;
    if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) != 0) exit(1);
    waitpid(child, &status, 0);
  }
}

struct Side {
  long turns;
  int64_t section_ns;
};

static void* Contend(void* argument) {
  const struct Side* side = argument;
  for (long i = 0; i < side->turns; ++i) {
    pthread_mutex_lock(&g_mutex);
    for (const int64_t until = Now() + side->section_ns; Now() < until;) {
    }
    pthread_mutex_unlock(&g_mutex);
  }
  return NULL;
}

static int Compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* load = argv[1];
  const long turns = atol(argv[2]);
  if (strcmp(load, "contended") == 0) {
    struct Side side = {turns, argc > 3 ? atol(argv[3]) : 1000};
    pthread_t threads[2];
    const int64_t start = Now();
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Contend, &side);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    const double each = (double)(Now() - start) / (2.0 * (double)turns);
    printf("%.3f %.3f\n", each, each);
    return 0;
  }
  void (*run)(long) = strcmp(load, "small") == 0        ? Small
                      : strcmp(load, "blocks") == 0     ? Blocks
                      : strcmp(load, "lock") == 0       ? Lock
                      : strcmp(load, "wait") == 0       ? Wait
                      : strcmp(load, "annotation") == 0 ? Annotation
                      : strcmp(load, "clock") == 0      ? Clock
                      : strcmp(load, "spawn") == 0      ? Spawn
                                                        : NULL;
  if (run == NULL) return 2;
  sem_init(&g_semaphore, 0, 0);
  uint32_t random = 1;
  for (int i = 0; i < 4096; ++i) {
    random = random * 1664525 + 1013904223;
    g_sizes[i] = 16 + (random >> 8) % 1009;
  }
  double batches[kBatches];
  const long each = turns / kBatches > 0 ? turns / kBatches : 1;
  const long pause_ms = argc > 3 ? atol(argv[3]) : 0;
  run(each);
  for (int i = 0; i < kBatches; ++i) {
    for (const int64_t until = Now() + pause_ms * 1000000; Now() < until;) {
    }
    const int64_t start = Now();
    run(each);
    batches[i] = (double)(Now() - start) / (double)each;
  }
  qsort(batches, kBatches, sizeof(batches[0]), Compare);
  printf("%.3f %.3f\n", batches[kBatches / 2], batches[0]);
  return 0;
}
