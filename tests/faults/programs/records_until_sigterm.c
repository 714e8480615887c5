// SPDX-License-Identifier: Apache-2.0
// records_until_sigterm COUNT [default]: makes COUNT records (reads and writes of one byte), writes `ready`, and makes
// a tenth more unless SIGTERM comes first. At SIGTERM it stops making any, writes how many there were, and waits; with
// `default`, SIGTERM ends it, after its share of records is written.
#include <signal.h>

#include "facts.h"

static volatile sig_atomic_t terminated;

static void Terminate(int signal) { terminated = signal; }

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 1000;
  const int dies = argc > 2 && strcmp(argv[2], "default") == 0;
  int ends[2];
  if (pipe(ends) != 0) return 1;
  if (!dies) {
    struct sigaction action = {.sa_handler = Terminate};
    sigaction(SIGTERM, &action, NULL);
  }
  char byte = 'x';
  uint64_t made = 0;
  const long all = dies ? count : count + count / 10;
  for (long i = 0; i < all && !terminated; i += 2) {
    if (i == count && !dies) Report("ready", 1);
    made += write(ends[1], &byte, 1) == 1;
    made += read(ends[0], &byte, 1) == 1;
  }
  if (dies) {
    Report("made", made);
    Report("ready", 1);
  }
  while (!terminated) SleepUnseen(1);
  Report("made", made);
  for (;;) SleepUnseen(1000);
}
