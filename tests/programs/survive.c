// SPDX-License-Identifier: Apache-2.0
// survive COUNT END: COUNT reads and writes of one byte, prints how many have returned, and dies by END.
#include <signal.h>

#include "facts.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const long count = atol(argv[1]) / 2;
  const char* end = argv[2];
  int ends[2];
  if (pipe(ends) != 0) return 1;
  char byte = 'x';
  uint64_t returned = 0;
  for (long i = 0; i < count; ++i) {
    returned += write(ends[1], &byte, 1) == 1;
    returned += read(ends[0], &byte, 1) == 1;
  }
  Report("returned", returned);
  printf("about to end\n");
  if (strcmp(end, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(end, "segv") == 0) *(volatile int*)8 = 1;
  if (strcmp(end, "abort") == 0) abort();
  if (strcmp(end, "_exit") == 0) _exit(3);
  return 0;
}
