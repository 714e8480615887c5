// SPDX-License-Identifier: Apache-2.0
//
// What a test program reports to its test beside its output, by system calls that no hook sees, and ways to wait that
// do not depend on time.
#ifndef TBPROF_TESTS_PROGRAMS_FACTS_H_
#define TBPROF_TESTS_PROGRAMS_FACTS_H_

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// One line `name value`.
static inline void ReportText(const char* name, const char* value) {
  const char* path = getenv("TEST_FACTS");
  if (path == NULL) return;
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  char line[600];
  const int size = snprintf(line, sizeof(line), "%s %s\n", name, value);
  syscall(SYS_write, fd, line, size);
  syscall(SYS_close, fd);
}

static inline void Report(const char* name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
  ReportText(name, text);
}

static inline void ReportAddress(const char* name, const volatile void* address) {
  char text[32];
  snprintf(text, sizeof(text), "0x%llx", (unsigned long long)(uintptr_t)address);
  ReportText(name, text);
}

static inline void SleepUnseen(int milliseconds) {
  struct timespec length = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  while (syscall(SYS_nanosleep, &length, &length) != 0) {
  }
}

static inline int ThreadId(void) { return (int)syscall(SYS_gettid); }

// Waits until the thread (or process) sleeps in the kernel, and stays there: one look may meet a page fault.
static inline void WaitUntilAsleep(int tid) {
  char path[64], text[512];
  snprintf(path, sizeof(path), "/proc/%d/stat", tid);
  for (int i = 0, asleep = 0; i < 20000 && asleep < 3; ++i) {
    const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return;
    const long size = syscall(SYS_read, fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    text[size < 0 ? 0 : size] = '\0';
    const char* state = strrchr(text, ')');
    asleep = state != NULL && (state[2] == 'S' || state[2] == 'Z') ? asleep + 1 : 0;
    SleepUnseen(1);
  }
}

// Waits until another thread has stored something there. Does not sleep: who waits for our sleep must not meet this
// one.
static inline int WaitForValue(const volatile int* value) {
  const time_t limit = time(NULL) + 30;
  while (time(NULL) < limit) {
    const int seen = __atomic_load_n(value, __ATOMIC_ACQUIRE);
    if (seen != 0) return seen;
    syscall(SYS_sched_yield);
  }
  return 0;
}

static inline double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

#endif  // TBPROF_TESTS_PROGRAMS_FACTS_H_
