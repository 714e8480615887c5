// SPDX-License-Identifier: Apache-2.0
// blocks_on_command COUNT: at SIGUSR2 takes COUNT blocks of 100 bytes and gives them back, keeping 100 of its last;
// at the next SIGUSR2 ends with status 5. Prints when the first is done.
#include <signal.h>

#include "facts.h"

enum { kAtOnce = 1000, kKept = 100 };
static void* volatile blocks[kAtOnce];

static __attribute__((noinline)) void TakeBlocks(void) {
  for (int i = 0; i < kAtOnce; ++i) blocks[i] = malloc(100);  // here: block
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : kAtOnce;
  // By system calls, so that nothing else is recorded.
  const uint64_t user = UINT64_C(1) << (SIGUSR2 - 1);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &user, NULL, sizeof(user));
  Report("pid", (uint64_t)getpid());
  for (int round = 1; round <= 2; ++round) {
    while (syscall(SYS_rt_sigtimedwait, &user, NULL, NULL, sizeof(user)) != SIGUSR2) {
    }
    if (round == 2) break;
    for (long done = 0; done < count; done += kAtOnce) {
      TakeBlocks();
      const int keeps = done + kAtOnce >= count ? kKept : 0;
      for (int i = keeps; i < kAtOnce; ++i) free(blocks[i]);
    }
    Report("done", (uint64_t)round);
  }
  return 5;
}
