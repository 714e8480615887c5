// SPDX-License-Identifier: Apache-2.0
// counted_steps STEPS BLOCKS [STATUS]: ranges `step 0`, `step 1`... of NVTX, each with a nap of 1 ms and BLOCKS blocks
// that are allocated and freed. Ends with STATUS, else 0.
#include <nvtx3/nvToolsExt.h>

#include "facts.h"

int main(int argc, char** argv) {
  const long steps = argc > 1 ? atol(argv[1]) : 50;
  const long blocks = argc > 2 ? atol(argv[2]) : 10;
  for (long step = 0; step < steps; ++step) {
    char name[32];
    snprintf(name, sizeof(name), "step %ld", step);
    nvtxRangePushA(name);
    for (long i = 0; i < blocks; ++i) {
      void* volatile block = malloc(100);
      free(block);
    }
    usleep(1000);
    nvtxRangePop();
  }
  return argc > 3 ? atoi(argv[3]) : 0;
}
