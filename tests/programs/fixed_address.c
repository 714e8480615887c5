// SPDX-License-Identifier: Apache-2.0
// Linked at a fixed address (see CMakeLists.txt): taking malloc's address makes a stub of the program's own for it.
#include "facts.h"

static void* (*volatile allocate)(size_t) = malloc;

int main(void) {
  for (int i = 0; i < 1000; ++i) free(allocate(100));
  puts("done");
  return 0;
}
