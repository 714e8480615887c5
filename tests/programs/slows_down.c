// SPDX-License-Identifier: Apache-2.0
// slows_down COUNT FROM TIMES: COUNT ranges `step 0`, `step 1`... of NVTX, each with a nap of 10 ms in Load, and from
// step FROM on with TIMES naps in Augment.
#include <nvtx3/nvToolsExt.h>

#include "facts.h"

static __attribute__((noinline)) void Load(void) {
  usleep(10000);  // load
  asm volatile("" ::: "memory");
}

static __attribute__((noinline)) void Augment(long times) {
  for (long i = 0; i < times; ++i) usleep(10000);  // augment
  asm volatile("" ::: "memory");
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long count = atol(argv[1]), from = atol(argv[2]), times = atol(argv[3]);
  for (long step = 0; step < count; ++step) {
    char name[32];
    snprintf(name, sizeof(name), "step %ld", step);
    nvtxRangePushA(name);
    Load();
    if (step >= from) Augment(times);
    nvtxRangePop();
  }
  return 0;
}
