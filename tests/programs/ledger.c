// SPDX-License-Identifier: Apache-2.0
// ledger [END]: blocks by three lines, of which two threads take those of one; blocks of a fourth that go before the
// peak, some of them by another thread; half of the large ones go after it. A fork child gives back what it inherits.
// Reports the usable bytes by line at the peak, and how many blocks. END: `kill`, or `fill`, which then fills memory
// that is none of the heap's until it is ended.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "facts.h"

enum { kSmall = 20000, kMedium = 3000, kLarge = 40, kGone = 20000 };

static void* volatile small[2][kSmall];
static void* volatile medium[kMedium];
static void* volatile large[kLarge];
static void* volatile gone[kGone];
static uint64_t small_bytes[2], medium_bytes, large_bytes;

static void* Small(void* which) {
  const int mine = which != NULL;
  for (int i = 0; i < kSmall; ++i) {
    small[mine][i] = malloc(700);  // here: small
    small_bytes[mine] += malloc_usable_size(small[mine][i]);
  }
  return NULL;
}

static __attribute__((noinline)) void Medium(void) {
  for (int i = 0; i < kMedium; ++i) {
    medium[i] = malloc(20000);  // here: medium
    medium_bytes += malloc_usable_size(medium[i]);
  }
}

static __attribute__((noinline)) void Large(void) {
  for (int i = 0; i < kLarge; ++i) {
    large[i] = malloc(3 << 20);  // here: large
    large_bytes += malloc_usable_size(large[i]);
  }
}

static __attribute__((noinline)) void Gone(void) {
  for (int i = 0; i < kGone; ++i) {
    gone[i] = malloc(5000);  // here: gone
  }
}

static void* FreeGone(void* odd) {
  for (int i = odd != NULL; i < kGone; i += 2) free(gone[i]);
  return NULL;
}

int main(int argc, char** argv) {
  Gone();
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, FreeGone, NULL);
  FreeGone(&threads);
  pthread_join(threads[0], NULL);
  pthread_create(&threads[0], NULL, Small, NULL);
  pthread_create(&threads[1], NULL, Small, &threads);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  Medium();
  Large();
  Report("small", small_bytes[0] + small_bytes[1]);
  Report("medium", medium_bytes);
  Report("large", large_bytes);
  Report("blocks", 2 * kSmall + kMedium + kLarge);
  for (int i = 0; i < kLarge / 2; ++i) free(large[i]);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kMedium; ++i) free(medium[i]);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  if (argc > 1 && strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  while (argc > 1 && strcmp(argv[1], "fill") == 0) {
    char* const pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 1;
    memset(pages, 1, 1 << 20);
  }
  return 0;
}
