// SPDX-License-Identifier: Apache-2.0
// many_children COUNT [exec PROGRAM]: short children one after the other by fork, each with a record; or by
// posix_spawn.
#include <spawn.h>
#include <sys/wait.h>

#include "facts.h"

extern char** environ;

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 1000;
  const int null_fd = open("/dev/null", O_WRONLY);
  long bad = 0;
  for (long i = 0; i < count; ++i) {
    pid_t child = -1;
    if (argc > 3) {
      char* const arguments[] = {argv[3], NULL};
      if (posix_spawn(&child, argv[3], NULL, NULL, arguments, environ) != 0) child = -1;
    } else {
      child = fork();
      if (child == 0) _exit(write(null_fd, "x", 1) == 1 ? 0 : 1);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++bad;
    if (i == count / 10) Report("a_tenth", (uint64_t)getppid());
  }
  Report("children", (uint64_t)count);
  printf("bad %ld\n", bad);
  return 0;
}
