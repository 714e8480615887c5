// SPDX-License-Identifier: Apache-2.0
// blocks [END]: blocks that stay, that make the peak, that come and go at once, that one thread takes and another gives
// back; a fork child that keeps some of its own. END: `kill`.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "facts.h"

enum { kKept = 1000, kPeak = 500, kTemporary = 20000, kHanded = 5000, kOfChild = 77 };

static void* volatile kept[kKept];
static void* volatile peak[kPeak];
static void* volatile temporary;
static void* volatile handed[kHanded];
static int handed_count;

static __attribute__((noinline)) void Keep(void) {
  for (int i = 0; i < kKept; ++i) {
    kept[i] = malloc(1000);  // here: keep
  }
}

static __attribute__((noinline)) void Peak(void) {
  for (int i = 0; i < kPeak; ++i) {
    peak[i] = malloc(20000);  // here: peak
  }
  for (int i = 0; i < kPeak; ++i) free(peak[i]);
}

static __attribute__((noinline)) void Temporary(void) {
  for (int i = 0; i < kTemporary; ++i) {
    temporary = malloc(64);  // here: temporary
    free(temporary);
  }
}

static void* HandOver(void* unused) {
  for (int i = 0; i < kHanded; ++i) {
    handed[i] = malloc(128);  // here: handed
    __atomic_store_n(&handed_count, i + 1, __ATOMIC_RELEASE);
  }
  return unused;
}

static void* GiveBack(void* unused) {
  for (int i = 0; i < kHanded; ++i) {
    while (__atomic_load_n(&handed_count, __ATOMIC_ACQUIRE) <= i) sched_yield();
    free(handed[i]);
  }
  return unused;
}

int main(int argc, char** argv) {
  Keep();
  Peak();
  Temporary();
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, HandOver, NULL);
  pthread_create(&threads[1], NULL, GiveBack, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kKept; ++i) free(kept[i]);
    for (int i = 0; i < kOfChild; ++i) {
      peak[i] = malloc(300);  // here: child
    }
    _exit(0);
  }
  waitpid(child, NULL, 0);
  if (argc > 1 && strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  return 0;
}
