// SPDX-License-Identifier: Apache-2.0
// A child by fork frees the blocks of its parent; another keeps them.
#include <sys/wait.h>

#include "facts.h"

enum { kBlocks = 1000, kBytes = 10000 };
static void* blocks[kBlocks];

int main(void) {
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBytes);
  for (int keeps = 0; keeps < 2; ++keeps) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < kBlocks && !keeps; ++i) free(blocks[i]);
      blocks[0] = malloc(kBytes);
      _exit(0);
    }
    Report(keeps ? "keeps" : "frees", (uint64_t)child);
    waitpid(child, NULL, 0);
  }
  return 0;
}
