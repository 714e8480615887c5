// SPDX-License-Identifier: Apache-2.0
// children_at_once COUNT: so many fork children alive at a time, each with a record. Prints how many came to their end.
#include <sys/wait.h>

#include "facts.h"

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 100;
  int gate[2], ready[2];
  if (pipe(gate) != 0 || pipe(ready) != 0) return 1;
  long alive = 0, ended = 0;
  char byte;
  for (long i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(gate[1]);
      if (write(ready[1], "r", 1) != 1) _exit(1);
      // Until the parent has closed its end, or is gone.
      _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
    }
    if (child > 0 && read(ready[0], &byte, 1) == 1) ++alive;
  }
  close(gate[1]);
  int status;
  while (wait(&status) > 0) ended += status == 0;
  printf("alive %ld, ended %ld\n", alive, ended);
  return 0;
}
