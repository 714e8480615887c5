// SPDX-License-Identifier: Apache-2.0
// fills_memory MEBIBYTES PAIRS: touches so much memory, and makes PAIRS writes and reads of one byte for each MiB of
// it.
#include "facts.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const long mebibytes = atol(argv[1]);
  const long pairs = atol(argv[2]);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  char byte = 'x';
  for (long i = 0; i < mebibytes; ++i) {
    char* block = malloc(1 << 20);
    if (block == NULL) return 1;
    memset(block, 1, 1 << 20);
    uint64_t returned = 0;
    for (long j = 0; j < pairs; ++j) {
      returned += write(ends[1], &byte, 1) == 1;
      returned += read(ends[0], &byte, 1) == 1;
    }
    Report("returned", returned * (uint64_t)(i + 1));
  }
  printf("filled %ld\n", mebibytes);
  return 0;
}
