// SPDX-License-Identifier: Apache-2.0
// records_on_command COUNT: COUNT records at each of two SIGUSR2, then ends with status 5. Prints when each is done.
#include <signal.h>

#include "facts.h"

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 1000;
  // By system calls, so that nothing else is recorded.
  const uint64_t user = UINT64_C(1) << (SIGUSR2 - 1);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &user, NULL, sizeof(user));
  const int null_fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY, 0);
  Report("pid", (uint64_t)getpid());
  for (int round = 1; round <= 2; ++round) {
    while (syscall(SYS_rt_sigtimedwait, &user, NULL, NULL, sizeof(user)) != SIGUSR2) {
    }
    for (long i = 0; i < count; ++i) {
      if (write(null_fd, "x", 1) != 1) return 1;
    }
    Report("done", (uint64_t)round);
  }
  return 5;
}
