// SPDX-License-Identifier: Apache-2.0
// keeps_secrets ARGUMENT...: reads its environment, puts a secret on heap and stack around sampled allocations, sends
// one through a pipe and a file, and starts a child that does the same.
#include <sys/wait.h>

#include "facts.h"

static void Work(void) {
  const char* secret = getenv("API_TOKEN");
  int ends[2];
  if (secret == NULL || pipe(ends) != 0) exit(1);
  for (int i = 0; i < 200; ++i) {
    char* copy = malloc(20000);
    strcpy(copy, secret);
    if (write(ends[1], copy, strlen(copy)) < 0 || read(ends[0], copy, 100) < 0) exit(1);
    free(copy);
  }
}

int main(int argc, char** argv) {
  Work();
  const pid_t child = fork();
  if (child == 0) {
    Work();
    if (argc > 1) {
      argv[argc - 1] = NULL;
      execv("/proc/self/exe", argv);
    }
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  return status;
}
