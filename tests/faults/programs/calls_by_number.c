// SPDX-License-Identifier: Apache-2.0
// calls_by_number: what programs do by syscall(): six words, errors, children, words of the caller's own behind the
// arguments, waits on a futex.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "facts.h"

static uint32_t turn;

static __attribute__((noinline)) long WaitOnWord(uint32_t* word, uint32_t value, const struct timespec* until) {
  return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, until, NULL, 0);
}
static void Wake(uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

static void* Answer(void* count) {
  for (uintptr_t i = 0; i < (uintptr_t)count; ++i) {
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 1) WaitOnWord(&turn, 0, NULL);
    usleep(2000);
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
    Wake(&turn);
  }
  return NULL;
}

static int failures;
static void Expect(const char* what, long result, long wanted, int error) {
  if (result == wanted && (wanted != -1 || errno == error)) return;
  ++failures;
  printf("%s: %ld, errno %d\n", what, result, errno);
}

// On some stacks the seventh word of the call is one of these, which another thread counts up.
static volatile int stop;
struct Counted {
  volatile uint64_t words[8];
};
static void* CountUp(void* data) {
  struct Counted* counted = data;
  for (uint64_t i = 1; !stop; ++i) {
    for (int j = 0; j < 8; ++j) counted->words[j] = i;
    for (int j = 0; j < 8; ++j) {
      if (counted->words[j] != i) ++failures;
    }
  }
  return NULL;
}
static __attribute__((noinline)) void CallBesideWords(void) {
  struct Counted counted;
  pthread_t thread;
  memset(&counted, 0, sizeof(counted));
  pthread_create(&thread, NULL, CountUp, &counted);
  uint32_t word = 1;
  for (int i = 0; i < 200000; ++i) {
    syscall(SYS_getppid);
    if (i % 16 == 0) syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL);
  }
  stop = 1;
  pthread_join(thread, NULL);
}

static void Children(void) {
  int status = 0;
  // As fork, on a copy of the stack.
  long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) syscall(SYS_exit_group, 5);
  waitpid((pid_t)child, &status, 0);
  printf("clone %d\n", WEXITSTATUS(status));
#if defined(__x86_64__)
  child = syscall(SYS_vfork);
  if (child == 0) syscall(SYS_exit_group, 6);
  waitpid((pid_t)child, &status, 0);
  printf("vfork %d\n", WEXITSTATUS(status));
  child = syscall(SYS_fork);
  if (child == 0) {
    uint32_t word = 0;
    const struct timespec soon = {0, 2000000};
    Expect("wait in child", WaitOnWord(&word, 0, &soon), -1, ETIMEDOUT);
    syscall(SYS_exit_group, failures == 0 ? 7 : 1);
  }
  waitpid((pid_t)child, &status, 0);
  printf("fork %d\n", WEXITSTATUS(status));
#endif
}

// A thread may be cancelled only later: syscall() is no point of cancellation.
static void* WaitCancelled(void* unused) {
  (void)unused;
  uint32_t word = 0;
  const struct timespec soon = {0, 5000000};
  pthread_cancel(pthread_self());
  const long result = WaitOnWord(&word, 0, &soon);
  printf("cancelled later %ld %d\n", result, errno == ETIMEDOUT);
  pthread_testcancel();
  return unused;
}

int main(void) {
  void* page = (void*)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  printf("mmap %d\n", page != MAP_FAILED && (*(char*)page = 1));
  const int file = open("/proc/self/exe", O_RDONLY);
  char* mapped = (char*)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
  printf("sixth word %d\n", mapped != MAP_FAILED && memcmp(mapped, "\177ELF", 4) == 0);
  errno = 77;
  Expect("getpid", syscall(SYS_getpid), getpid(), 0);
  printf("errno kept %d\n", errno == 77);
  Expect("no such call", syscall(100000), -1, ENOSYS);
  Expect("close", syscall(SYS_close, -1), -1, EBADF);
  uint32_t word = 3;
  const struct timespec soon = {0, 3000000}, bad = {0, -1};
  Expect("other value", WaitOnWord(&word, 4, NULL), -1, EAGAIN);
  Expect("timeout", WaitOnWord(&word, 3, &soon), -1, ETIMEDOUT);
  Expect("bad time", WaitOnWord(&word, 3, &bad), -1, EINVAL);
  Expect("bad word", WaitOnWord((uint32_t*)8, 3, NULL), -1, EFAULT);
  Expect("bitset", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 3, NULL, NULL, 0), -1, EINVAL);
  Children();
  CallBesideWords();
  pthread_t thread;
  pthread_create(&thread, NULL, WaitCancelled, NULL);
  pthread_join(thread, NULL);
  enum { kTurns = 20 };
  pthread_create(&thread, NULL, Answer, (void*)(uintptr_t)kTurns);
  for (int i = 0; i < kTurns; ++i) {
    __atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
    Wake(&turn);
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 0) WaitOnWord(&turn, 1, NULL);
  }
  pthread_join(thread, NULL);
  printf("failures %d\n", failures);
  return failures != 0;
}
