// SPDX-License-Identifier: Apache-2.0
// Goes into an empty root directory where it may (else it stays), and works there: alone, and in a fork child.
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "facts.h"

static __attribute__((noinline)) void Inside(void) {
  free(malloc(200000));
  usleep(1000);
}

int main(void) {
  char directory[] = "/tmp/tbprof-root-XXXXXX";
  if (mkdtemp(directory) == NULL) return 1;
  const int outside = open("/", O_RDONLY | O_DIRECTORY);
  if (chroot(directory) == 0 && chdir("/") != 0) return 1;
  Inside();
  const pid_t child = fork();
  if (child == 0) {
    Inside();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  if (fchdir(outside) == 0 && chroot(".") == 0) rmdir(directory);
  printf("%d\n", status);
  return 3;
}
