// SPDX-License-Identifier: Apache-2.0
// Leaves a daemon behind by two forks, and ends at once. The daemon lives until the file named by its argument is
// there.
#include <sys/wait.h>

#include "facts.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const pid_t child = fork();
  if (child == 0) {
    int told[2];
    if (pipe(told) != 0) _exit(1);
    setsid();
    const pid_t daemon = fork();
    if (daemon != 0) {
      char byte;
      close(told[1]);
      _exit(read(told[0], &byte, 1) == 1 ? 0 : 1);
    }
    for (int i = 0; i < 3; ++i) close(i);
    Report("daemon", (uint64_t)getpid());
    if (write(told[1], "t", 1) != 1) _exit(1);
    for (int i = 0; i < 30000 && access(argv[1], F_OK) != 0; ++i) {
      free(malloc(100000));
      usleep(1000);
    }
    Report("daemon_ends", 1);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("leaves\n");
  return 3;
}
