// SPDX-License-Identifier: Apache-2.0
// Threads that name themselves by prctl, by a system call and through /proc, and one that takes its name late. Names of
// the last two kinds are seen while the thread lives: they stay until the test has seen a line (SIGUSR2).
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "facts.h"

static void* ByPrctl(void* unused) {
  // The kernel keeps 15 bytes.
  prctl(PR_SET_NAME, (unsigned long)"prctl-name-that-is-long", 0, 0, 0);
  SleepUnseen(2);
  return unused;
}

static volatile int stays, stop;

static void* BySystemCall(void* unused) {
  syscall(SYS_prctl, PR_SET_NAME, "by-syscall", 0, 0, 0);
  __atomic_add_fetch(&stays, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) SleepUnseen(2);
  return unused;
}

static void* ThroughProc(void* unused) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/task/%d/comm", ThreadId());
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY, 0);
  if (fd < 0 || syscall(SYS_write, fd, "through-proc", 12) != 12) printf("cannot write %s\n", path);
  syscall(SYS_close, fd);
  __atomic_add_fetch(&stays, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) SleepUnseen(2);
  return unused;
}

static void* Nameless(void* unused) {
  SleepUnseen(2);
  return unused;
}

int main(void) {
  const uint64_t user = UINT64_C(1) << (SIGUSR2 - 1);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &user, NULL, sizeof(user));
  pthread_t threads[4];
  void* (*const routines[4])(void*) = {ByPrctl, BySystemCall, ThroughProc, Nameless};
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, routines[i], NULL);
  while (__atomic_load_n(&stays, __ATOMIC_ACQUIRE) < 2) SleepUnseen(1);
  Report("named", (uint64_t)getpid());
  while (syscall(SYS_rt_sigtimedwait, &user, NULL, NULL, sizeof(user)) != SIGUSR2) {
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  return 0;
}
