// SPDX-License-Identifier: Apache-2.0
// step_memory leak|stay: 40 ranges `step 0`, `step 1`... of NVTX. Each takes 16 MiB that go with it, and with `leak` 4
// MiB that stay; with `stay` these take the place of those of the step before.
#include <nvtx3/nvToolsExt.h>

#include "facts.h"

enum { kSteps = 40, kBlocks = 64, kKept = 16 };

static void* volatile work[kBlocks];
static void* volatile kept[kSteps * kKept];

static __attribute__((noinline)) void Remember(int at) {
  for (int i = 0; i < kKept; ++i) {
    free(kept[at * kKept + i]);
    kept[at * kKept + i] = malloc(256 << 10);  // here: remember
  }
}

int main(int argc, char** argv) {
  const int leak = argc > 1 && strcmp(argv[1], "leak") == 0;
  for (int step = 0; step < kSteps; ++step) {
    char name[32];
    snprintf(name, sizeof(name), "step %d", step);
    nvtxRangePushA(name);
    for (int i = 0; i < kBlocks; ++i) work[i] = malloc(256 << 10);
    Remember(leak ? step : 0);
    usleep(15000);
    for (int i = 0; i < kBlocks; ++i) free(work[i]);
    usleep(15000);
    nvtxRangePop();
  }
  return 0;
}
