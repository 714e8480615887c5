// SPDX-License-Identifier: Apache-2.0
// old_spawn FILE: starts a script without `#!` by posix_spawn and posix_spawnp as programs linked before glibc 2.15 do
// (libc gives it to the shell), and as later ones do (ENOEXEC).
#include <spawn.h>
#include <sys/wait.h>

#include "facts.h"

extern char** environ;
#if defined(__x86_64__)
int OldSpawn(pid_t*, const char*, const void*, const void*, char* const*, char* const*);
int OldSpawnPath(pid_t*, const char*, const void*, const void*, char* const*, char* const*);
__asm__(".symver OldSpawn,posix_spawn@GLIBC_2.2.5");
__asm__(".symver OldSpawnPath,posix_spawnp@GLIBC_2.2.5");
#else
#define OldSpawn posix_spawn
#define OldSpawnPath posix_spawnp
#endif

static void Print(const char* name, int result, pid_t child) {
  int status = 0;
  if (result == 0) waitpid(child, &status, 0);
  printf("%s: %s, exit status %d\n", name, strerrorname_np(result), WEXITSTATUS(status));
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char* const arguments[] = {argv[1], "word", NULL};
  pid_t child = 0;
  int result = OldSpawn(&child, argv[1], NULL, NULL, arguments, environ);
  Print("old posix_spawn", result, child);
  result = OldSpawnPath(&child, argv[1], NULL, NULL, arguments, environ);
  Print("old posix_spawnp", result, child);
  result = posix_spawn(&child, argv[1], NULL, NULL, arguments, environ);
  Print("posix_spawn", result, child);
  result = posix_spawnp(&child, argv[1], NULL, NULL, arguments, environ);
  Print("posix_spawnp", result, child);
  return 0;
}
