// SPDX-License-Identifier: Apache-2.0
// churn: allocates, fills and releases 32 KiB again and again until there is a file `stop`. Facts: `warm` soon after
// the start; `blocks`, how many it allocated.
#include "facts.h"

static void* volatile keep;

int main(void) {
  uint64_t blocks = 0;
  for (int round = 0;; ++round) {
    for (int i = 0; i < 1000; ++i) {
      keep = malloc(32 << 10);
      memset(keep, round, 32 << 10);
      free(keep);
    }
    blocks += 1000;
    if (round == 0) Report("warm", 1);
    if (access("stop", F_OK) == 0) break;
  }
  Report("blocks", blocks);
  return 0;
}
