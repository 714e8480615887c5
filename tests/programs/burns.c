// SPDX-License-Identifier: Apache-2.0
// Uses CPU time in two functions, one with three times the work of the other: at once, in a thread made later, in a
// fork child, after an exec, until it is killed.
//
//   burns plain|thread|fork|exec|kill|short|rhythm|inlined [CPU_MS]
//
// inlined: a third function, which the compiler inlines into the one that calls it.
// rhythm: the two functions take turns 200 times in a second of CPU time, three quarters of each turn in the first.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "facts.h"

static volatile uint64_t sink;

static __attribute__((noinline)) void Work(uint64_t units) {
  for (uint64_t i = 0; i < units; ++i) sink = sink * 3 + i;
}

// A copy each, so that the stacks end in different functions.
static __attribute__((noinline)) void Heavy(uint64_t units) {
  for (uint64_t i = 0; i < 3 * units; ++i) sink = sink * 3 + i;
}

static __attribute__((noinline)) void Light(uint64_t units) {
  for (uint64_t i = 0; i < units; ++i) sink = sink * 3 + i;
}

static inline __attribute__((always_inline)) void Inlined(uint64_t units) {
  for (uint64_t i = 0; i < units; ++i) sink = sink * 5 + i;
}

static uint64_t ThreadCpuUs(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

static void BurnInRhythm(uint64_t cpu_ms) {
  const uint64_t turn_us = 5000;
  const uint64_t begin = ThreadCpuUs();
  for (uint64_t at = begin; at < begin + cpu_ms * 1000; at += turn_us) {
    while (ThreadCpuUs() < at + turn_us * 3 / 4) Heavy(5000);
    while (ThreadCpuUs() < at + turn_us) Light(15000);
  }
}

static long ThreadCpuMs(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static __attribute__((noinline)) void BurnBoth(long cpu_ms) {
  const long end = ThreadCpuMs() + cpu_ms;
  while (ThreadCpuMs() < end) {
    Heavy(20000);
    Light(20000);
  }
}

static __attribute__((noinline)) void BurnInThread(long cpu_ms) {
  const long end = ThreadCpuMs() + cpu_ms;
  while (ThreadCpuMs() < end) Work(20000);
}

static __attribute__((noinline)) void BurnInlined(long cpu_ms) {
  const long end = ThreadCpuMs() + cpu_ms;
  while (ThreadCpuMs() < end) Inlined(20000);
}

static void* ThreadMain(void* argument) {
  pthread_setname_np(pthread_self(), "burner");
  BurnInThread((long)(intptr_t)argument);
  return NULL;
}

int main(int count, char** arguments) {
  const char* mode = count > 1 ? arguments[1] : "plain";
  const long cpu_ms = count > 2 ? atol(arguments[2]) : 1000;
  if (strcmp(mode, "plain") == 0) {
    BurnBoth(cpu_ms);
  } else if (strcmp(mode, "inlined") == 0) {
    BurnInlined(cpu_ms);
  } else if (strcmp(mode, "rhythm") == 0) {
    BurnInRhythm((uint64_t)cpu_ms);
  } else if (strcmp(mode, "thread") == 0) {
    BurnBoth(cpu_ms / 4);
    pthread_t thread;
    pthread_create(&thread, NULL, ThreadMain, (void*)(intptr_t)cpu_ms);
    pthread_join(thread, NULL);
  } else if (strcmp(mode, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      BurnInThread(cpu_ms);
      _exit(0);
    }
    Report("child", (uint64_t)child);
    BurnBoth(cpu_ms);
    waitpid(child, NULL, 0);
  } else if (strcmp(mode, "exec") == 0) {
    BurnInThread(cpu_ms);
    execl("/proc/self/exe", arguments[0], "plain", arguments[2], (char*)NULL);
  } else if (strcmp(mode, "kill") == 0) {
    BurnBoth(cpu_ms);
    kill(getpid(), SIGKILL);
  }
  printf("done\n");
  return 0;
}
