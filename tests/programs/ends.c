// SPDX-License-Identifier: Apache-2.0
// ends exit CODE | ends signal NUMBER
#include <signal.h>

#include "facts.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int number = atoi(argv[2]);
  printf("%s %d\n", argv[1], number);
  fprintf(stderr, "on stderr\n");
  fflush(stdout);
  if (strcmp(argv[1], "signal") == 0) kill(getpid(), number);
  return number;
}
