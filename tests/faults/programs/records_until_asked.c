// SPDX-License-Identifier: Apache-2.0
// records_until_asked COUNT: writes `ready`, waits for a file `go` in its directory, makes COUNT records and ends with
// 7.
#include "facts.h"

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 1000;
  int ends[2];
  if (pipe(ends) != 0) return 1;
  Report("pid", (uint64_t)getpid());
  Report("ready", 1);
  while (access("go", F_OK) != 0) SleepUnseen(2);
  char byte = 'x';
  for (long i = 0; i < count; i += 2) {
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 1;
  }
  printf("done\n");
  return 7;
}
