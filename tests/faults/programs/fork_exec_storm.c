// SPDX-License-Identifier: Apache-2.0
// fork_exec_storm COUNT ALIVE: COUNT children by fork that become this program again by exec and end at once; at most
// ALIVE of them at a time. Prints how many were made, and how many ended well.
#include <sys/wait.h>

#include "facts.h"

int main(int argc, char** argv) {
  if (argc < 3) return 0;
  const long count = atol(argv[1]), most = atol(argv[2]);
  long made = 0, alive = 0, good = 0;
  while (made < count || alive > 0) {
    if (made < count && alive < most) {
      const pid_t child = fork();
      if (child == 0) {
        execl(argv[0], argv[0], "child", (char*)NULL);
        _exit(9);
      }
      if (child < 0) return 1;
      ++made;
      ++alive;
    } else {
      int status = 1;
      if (wait(&status) <= 0) return 1;
      --alive;
      good += status == 0;
    }
  }
  Report("made", (uint64_t)made);
  printf("made %ld, good %ld\n", made, good);
  return 0;
}
