// SPDX-License-Identifier: Apache-2.0
// overwrites_environment: moves its environment and clears the place where it was, as setproctitle does; then waits for
// a file `stop` in its directory.
#include "facts.h"

extern char** environ;

int main(void) {
  size_t count = 0;
  while (environ[count] != NULL) ++count;
  char** const moved = calloc(count + 1, sizeof(char*));
  if (moved == NULL) return 1;
  for (size_t i = 0; i < count; ++i) moved[i] = strdup(environ[i]);
  for (size_t i = 0; i < count; ++i) memset(environ[i], 0, strlen(environ[i]));
  environ = moved;
  Report("pid", (uint64_t)getpid());
  Report("ready", 1);
  for (int i = 0; i < 30000 && access("stop", F_OK) != 0; ++i) SleepUnseen(2);
  return 0;
}
