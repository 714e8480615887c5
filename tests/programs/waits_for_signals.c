// SPDX-License-Identifier: Apache-2.0
// waits_for_signals SECONDS [handle]: sleeps in short pieces until SIGTERM or the time is over, and counts the signals
// that reach it. Facts: its pid, then `signal N` for each.
#include <signal.h>

#include "facts.h"

static volatile sig_atomic_t counts[65], terminated;

static void Count(int signal) {
  counts[signal] = counts[signal] + 1;
  Report("signal", (uint64_t)signal);
  if (signal == SIGTERM) terminated = 1;
}

int main(int argc, char** argv) {
  const long seconds = argc > 1 ? atol(argv[1]) : 10;
  if (argc > 2) {
    struct sigaction action = {.sa_handler = Count, .sa_flags = SA_RESTART};
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGWINCH, SIGQUIT, SIGCONT};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); ++i) sigaction(signals[i], &action, NULL);
  }
  Report("parent", (uint64_t)getppid());
  Report("pid", (uint64_t)getpid());
  const double start = Milliseconds();
  long pieces = 0;
  while (!terminated && Milliseconds() - start < (double)seconds * 1000) {
    usleep(2000);
    ++pieces;
    if (pieces == 50) Report("warm", 1);
    if (access("stop", F_OK) == 0) break;
  }
  Report("pieces", (uint64_t)pieces);
  for (int i = 1; i < 65; ++i) {
    if (counts[i] > 0) printf("signal %d: %d\n", i, (int)counts[i]);
  }
  printf("finished\n");
  return 23;
}
