// SPDX-License-Identifier: Apache-2.0
// marked_steps COUNT [TIMES]: COUNT ranges `step 0`, `step 1`... of NVTX, each with naps of 2 ms and 1 ms in it (TIMES
// of each, else one), then naps until there is a file `stop`; COUNT 0 goes on with steps until then. Exit status 5.
#include <nvtx3/nvToolsExt.h>

#include "facts.h"

static int Stopped(void) { return syscall(SYS_faccessat, AT_FDCWD, "stop", F_OK) == 0; }

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 0;
  const long times = argc > 2 ? atol(argv[2]) : 1;
  for (long step = 0; count == 0 ? !Stopped() : step < count; ++step) {
    char name[32];
    snprintf(name, sizeof(name), "step %ld", step);
    nvtxRangePushA(name);
    for (long i = 0; i < times; ++i) {
      usleep(2000);
      usleep(1000);
    }
    nvtxRangePop();
    if (step == 5) Report("warm", 1);
  }
  while (!Stopped()) usleep(2000);
  return 5;
}
