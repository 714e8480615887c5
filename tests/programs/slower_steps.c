// SPDX-License-Identifier: Apache-2.0
// slower_steps: ranges `step 0`, `step 1`... of NVTX, each with 50 blocks that are allocated and freed, and a nap of
// 1 ms, or of 50 ms once there is a file `slow`, until there is a file `stop`. Facts: `warm` after 20 steps, `slow` in
// the first slow step.
#include <nvtx3/nvToolsExt.h>

#include "facts.h"

static void Fast(void) { usleep(1000); }
static void Slow(void) { usleep(50000); }

int main(void) {
  int slow = 0;
  for (long step = 0; access("stop", F_OK) != 0; ++step) {
    char name[32];
    snprintf(name, sizeof(name), "step %ld", step);
    nvtxRangePushA(name);
    if (!slow && access("slow", F_OK) == 0) {
      slow = 1;
      Report("slow", 1);
    }
    for (int i = 0; i < 50; ++i) {
      void* volatile block = malloc(100);
      free(block);
    }
    slow ? Slow() : Fast();
    nvtxRangePop();
    if (step == 20) Report("warm", 1);
  }
  return 0;
}
