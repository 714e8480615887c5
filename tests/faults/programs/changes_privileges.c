// SPDX-License-Identifier: Apache-2.0
// changes_privileges: takes away, one by one, what a profiler could lean on, and makes 100 records after each: its
// LD_PRELOAD, its dumpability, its root directory, its user, and last its parent (a child that is not waited for).
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "facts.h"

static int ends[2];

static void Records(void) {
  char byte = 'x';
  for (int i = 0; i < 50; ++i) {
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) abort();
  }
}

int main(void) {
  if (pipe(ends) != 0) return 1;
  unsetenv("LD_PRELOAD");
  Records();
  prctl(PR_SET_DUMPABLE, 0);
  Records();
  if (geteuid() == 0) {
    if (chroot("/proc/self/fdinfo") != 0 || chdir("/") != 0) return 1;
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return 1;
  }
  Records();
  const pid_t child = fork();
  if (child == 0) {
    Records();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  printf("%s, child %d\n", getenv("LD_PRELOAD") == NULL ? "no preload" : "preload", status);
  return 0;
}
