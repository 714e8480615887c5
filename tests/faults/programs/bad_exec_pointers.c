// SPDX-License-Identifier: Apache-2.0
// Calls of the exec family with addresses that are none: the kernel returns EFAULT.
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static void Print(const char* what, int result) {
  printf("%s: %d %s\n", what, result, result == 0 ? "0" : strerrorname_np(result < 0 ? errno : result));
}

int main(void) {
  char* const arguments[] = {(char*)"true", NULL};
  // volatile: the compiler warns of these.
  char* volatile none = (char*)8;
  char* const* volatile nowhere = (char* const*)16;
  char* volatile null = NULL;
  char* bad_entry[] = {(char*)"A=1", (char*)24, NULL};
  // A path and an environment that run into the end of what is mapped.
  char* const page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page + 4096, 4096);
  char** const unended = (char**)(page + 4096 - 2 * sizeof(char*));
  unended[0] = (char*)"A=1";
  unended[1] = (char*)"B=2";
  Print("execve cut environment", execve("/bin/true", arguments, unended));
  memcpy(page + 4091, "/bin/", 5);
  Print("execve path", execve(none, arguments, environ));
  Print("execve null", execve(null, arguments, environ));
  Print("execve arguments", execve("/bin/true", nowhere, environ));
  Print("execve environment", execve("/bin/true", arguments, nowhere));
  Print("execve entry", execve("/bin/true", arguments, bad_entry));
  Print("execve cut path", execve(page + 4091, arguments, environ));
  Print("execv path", execv(none, arguments));
  Print("execveat path", execveat(0, none, arguments, environ, 0));
  Print("execl path", execl(none, "true", (char*)NULL));
  const pid_t pid = vfork();
  if (pid == 0) {
    execve("/bin/true", arguments, nowhere);
    _exit(errno == EFAULT ? 7 : 8);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("vfork: %d\n", WEXITSTATUS(status));
  pid_t spawned;
  Print("posix_spawn path", posix_spawn(&spawned, none, NULL, NULL, arguments, environ));
  Print("posix_spawn environment", posix_spawn(&spawned, "/bin/true", NULL, NULL, arguments, nowhere));
  return 0;
}
