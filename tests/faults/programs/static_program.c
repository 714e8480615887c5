// SPDX-License-Identifier: Apache-2.0
// Linked statically (tests/CMakeLists.txt): LD_PRELOAD means nothing to it.
#include <stdlib.h>

int main(void) {
  free(malloc(100));
  return 5;
}
