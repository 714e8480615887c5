// SPDX-License-Identifier: Apache-2.0
// jumps_out_of_handlers ROUNDS: a timer's handler jumps out of calls (and out of what a profiler does around them) that
// are safe to leave so; then an ordinary tail of 1000 records.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include "facts.h"

static sigjmp_buf back;
static volatile sig_atomic_t armed;

static void Jump(int signal) {
  if (!armed) return;
  armed = 0;
  siglongjmp(back, signal);
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 1000;
  int ends[2];
  if (pipe(ends) != 0) return 1;
  struct sigaction action = {.sa_handler = Jump};
  sigaction(SIGALRM, &action, NULL);
  volatile long jumps = 0;
  for (volatile long i = 0; i < rounds; ++i) {
    if (sigsetjmp(back, 1) != 0) {
      ++jumps;
      continue;
    }
    armed = 1;
    // At another place of the loop below each time.
    const struct itimerval timer = {{0, 0}, {0, 20 + i * 7 % 150}};
    setitimer(ITIMER_REAL, &timer, NULL);
    char byte = 'x';
    for (;;) {
      if (write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) != 1) return 1;
      usleep(1);
    }
  }
  const struct itimerval off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &off, NULL);
  armed = 0;
  // A byte that was written and not read when the jump came.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  char rest[65536];
  while (syscall(SYS_read, ends[0], rest, sizeof(rest)) > 0) {
  }
  errno = 0;
  for (int i = 0; i < 500; ++i) {
    char byte = 'y';
    if (pwrite(ends[1], &byte, 1, 0) >= 0 || errno != ESPIPE) return 1;
    if (write(ends[1], &byte, 1) != 1) return 1;
  }
  printf("%ld jumps\n", (long)jumps);
  return 0;
}
