// SPDX-License-Identifier: Apache-2.0
// step_memory leak|stay|map: 40 ranges `step 0`, `step 1`... of NVTX. Each takes 16 MiB that go with it, and with
// `leak` 4 MiB that stay; with `stay` these take the place of those of the step before. With `map` 4 MiB are mapped and
// stay, and a step takes longer, as the kernel's counts are read every 100 ms.
#include <nvtx3/nvToolsExt.h>
#include <sys/mman.h>

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

static void Map(void) {
  const size_t bytes = 4 << 20;
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) memset(at, 1, bytes);
}

int main(int argc, char** argv) {
  const int leak = argc > 1 && strcmp(argv[1], "leak") == 0;
  const int map = argc > 1 && strcmp(argv[1], "map") == 0;
  for (int step = 0; step < kSteps; ++step) {
    char name[32];
    snprintf(name, sizeof(name), "step %d", step);
    nvtxRangePushA(name);
    for (int i = 0; i < kBlocks; ++i) work[i] = malloc(256 << 10);
    Remember(leak ? step : 0);
    if (map) {
      Map();
      usleep(80000);
    }
    usleep(15000);
    for (int i = 0; i < kBlocks; ++i) free(work[i]);
    usleep(15000);
    nvtxRangePop();
  }
  return 0;
}
