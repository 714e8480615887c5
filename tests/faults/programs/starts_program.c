// SPDX-License-Identifier: Apache-2.0
// starts_program HOW ENVIRONMENT PROGRAM: starts it by fork, vfork, spawn, system or popen, or becomes it (exec), with
// the environment as it is (`whole`) or with none (`empty`).
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

int main(int argc, char** argv) {
  if (argc != 4) return 99;
  const char* const how = argv[1];
  char* const none[] = {NULL};
  char* const* environment = strcmp(argv[2], "whole") == 0 ? environ : none;
  char* const arguments[] = {argv[3], NULL};
  pid_t pid = 0;
  if (strcmp(how, "system") == 0) {
    if (environment == none) unsetenv("LD_PRELOAD");
    return WEXITSTATUS(system(argv[3]));
  }
  if (strcmp(how, "popen") == 0) {
    if (environment == none) unsetenv("LD_PRELOAD");
    FILE* const pipe = popen(argv[3], "r");
    return pipe == NULL ? 97 : WEXITSTATUS(pclose(pipe));
  }
  if (strcmp(how, "exec") == 0) return execve(argv[3], arguments, environment);
  if (strcmp(how, "fork") == 0) {
    pid = fork();
    if (pid == 0) {
      execve("/no/such/program", arguments, environment);
      _exit(execve(argv[3], arguments, environment));
    }
  }
  if (strcmp(how, "vfork") == 0) {
    pid = vfork();
    if (pid == 0) {
      execve("/no/such/program", arguments, environment);
      _exit(execve(argv[3], arguments, environment));
    }
  }
  if (strcmp(how, "spawn") == 0 && posix_spawn(&pid, argv[3], NULL, NULL, arguments, environment) != 0) return 98;
  int status = 0;
  waitpid(pid, &status, 0);
  printf("%s: %d\n", how, WEXITSTATUS(status));
  return 0;
}
