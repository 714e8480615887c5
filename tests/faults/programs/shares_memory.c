// SPDX-License-Identifier: Apache-2.0
// shares_memory [beside]: children that share the memory of their parent (CLONE_VM), by clone and clone3; the parent
// waits for them (CLONE_VFORK), or goes on.
#include <linux/sched.h>
#include <sched.h>
#include <sys/wait.h>

#include "facts.h"

static int null_fd;
static char stack[2][256 * 1024] __attribute__((aligned(16)));

static __attribute__((noinline)) void Before(void) {
  for (int i = 0; i < 100; ++i) (void)!write(null_fd, "x", 1);
}
static __attribute__((noinline)) void After(void) {
  for (int i = 0; i < 100; ++i) (void)!write(null_fd, "x", 1);
}
static __attribute__((noinline)) int InChild(void* unused) {
  (void)unused;
  for (int i = 0; i < 100; ++i) (void)!write(null_fd, "x", 1);
  return 7;
}

int main(int argc, char** argv) {
  const int flags = CLONE_VM | (argc > 1 ? 0 : CLONE_VFORK);
  int status = 0;
  (void)argv;
  null_fd = open("/dev/null", O_WRONLY);
  Before();
  const pid_t child = clone(InChild, stack[0] + sizeof(stack[0]), flags | SIGCHLD, NULL);
  After();
  // Not by a hooked call: the child may be in one.
  syscall(SYS_wait4, child, &status, 0, NULL);
  printf("%d\n", WEXITSTATUS(status));
  if (argc > 1) return 3;
#if defined(__x86_64__)
  // As vfork does: on the parent's stack, which it may not leave.
  struct clone_args arguments = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
  const long second = syscall(SYS_clone3, &arguments, sizeof(arguments));
  if (second == 0) {
    InChild(NULL);
    syscall(SYS_exit, 8);
  }
  syscall(SYS_wait4, second, &status, 0, NULL);
#else
  const pid_t second = clone(InChild, stack[1] + sizeof(stack[1]), flags | SIGCHLD, NULL);
  syscall(SYS_wait4, second, &status, 0, NULL);
#endif
  printf("%d\n", WEXITSTATUS(status));
  return 3;
}
