// SPDX-License-Identifier: Apache-2.0
// Every way to sleep.
#include <errno.h>
#include <signal.h>

#include "facts.h"

int main(void) {
  const struct timespec length = {0, 10000000}, invalid = {0, 2000000000};
  printf("sleep: %u\n", sleep(1));  // here: sleep
  printf("usleep: %d\n", usleep(10000));
  printf("nanosleep: %d\n", nanosleep(&length, NULL));
  printf("clock_nanosleep: %d\n", clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL));
  int result = nanosleep(&invalid, NULL);
  printf("invalid: %d %s\n", result, strerrorname_np(errno));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  result = sigtimedwait(&set, NULL, &length);
  printf("sigtimedwait: %d %s\n", result, strerrorname_np(errno));
  kill(getpid(), SIGUSR2);
  int signal = 0;
  result = sigwait(&set, &signal);
  printf("sigwait: %d %d\n", result, signal);
  return 0;
}
