// SPDX-License-Identifier: Apache-2.0
// Children by fork: one that ends normally, one by _exit, one by a signal, one with a child of its own. Each sleeps
// until its parent waits for it.
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "facts.h"

__attribute__((noinline)) static void ChildWork(const char* name) {
  Report(name, (uint64_t)getpid());
  usleep(5000);  // here: child work
  WaitUntilAsleep(getppid());
  SleepUnseen(10);
}

__attribute__((noinline)) static void WaitFor(pid_t pid) {
  int status = 0;
  const pid_t got = waitpid(pid, &status, 0);  // here: waitpid
  printf("%d exited %d status %d signal %d\n", got == pid, WIFEXITED(status),
         WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  pid_t pid = fork();
  if (pid == 0) {
    ChildWork("exits");
    exit(4);
  }
  WaitFor(pid);
  pid = fork();
  if (pid == 0) {
    ChildWork("leaves");
    _exit(5);
  }
  WaitFor(pid);
  pid = fork();
  if (pid == 0) {
    ChildWork("is_killed");
    kill(getpid(), SIGKILL);
  }
  WaitFor(pid);
  pid = fork();
  if (pid == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      ChildWork("grandchild");
      _exit(6);
    }
    WaitFor(grandchild);
    Report("grandparent", (uint64_t)getpid());
    _exit(7);
  }
  WaitFor(pid);
  siginfo_t info;
  pid = fork();
  if (pid == 0) _exit(8);
  const int result = waitid(P_PID, (id_t)pid, &info, WEXITED);
  printf("waitid: %d %d\n", result, info.si_status);
  pid = vfork();
  if (pid == 0) _exit(9);
  WaitFor(pid);
  errno = 0;
  const pid_t none = waitpid(-1, NULL, 0);
  printf("no child: %d %s\n", (int)none, strerrorname_np(errno));
  return 0;
}
