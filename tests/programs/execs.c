// SPDX-License-Identifier: Apache-2.0
// execs KIND: becomes itself with the argument `end` by that function of the exec family; `fail`: an exec that fails.
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

#include "facts.h"

extern char** environ;

__attribute__((noinline)) static void PrintEnd(int argc, char** argv) {
  printf("end %d:", argc);
  for (int i = 0; i < argc; ++i) printf(" %s", i == 0 ? "self" : argv[i]);
  printf(" marker=%s\n", getenv("MARKER") ? getenv("MARKER") : "none");
  Report("end_pid", (uint64_t)getpid());
  usleep(2000);  // here: after exec
}

__attribute__((noinline)) static void PrintStatus(const char* what, int result, const pid_t* pid) {
  int status = 0;
  if (result == 0) waitpid(*pid, &status, 0);
  printf("%s: %d status %d\n", what, result, WEXITSTATUS(status));
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "";
  const char* self = "/proc/self/exe";
  char real[600];
  const ssize_t size = readlink(self, real, sizeof(real) - 1);
  real[size < 0 ? 0 : size] = '\0';
  char* arguments[] = {argv[0], "end", "a b", "", NULL};
  setvbuf(stdout, NULL, _IONBF, 0);
  if (strcmp(kind, "end") == 0) {
    PrintEnd(argc, argv);
    return 17;
  }
  setenv("MARKER", "set", 1);
  usleep(2000);  // here: before exec
  if (strcmp(kind, "execve") == 0) execve(real, arguments, environ);
  if (strcmp(kind, "execv") == 0) execv(real, arguments);
  if (strcmp(kind, "execvp") == 0) execvp(real, arguments);
  if (strcmp(kind, "execvpe") == 0) execvpe(real, arguments, environ);
  if (strcmp(kind, "execl") == 0) execl(real, argv[0], "end", "a b", "", (char*)NULL);
  if (strcmp(kind, "execlp") == 0) execlp(real, argv[0], "end", "a b", "", (char*)NULL);
  if (strcmp(kind, "execle") == 0) execle(real, argv[0], "end", "a b", "", (char*)NULL, environ);
  if (strcmp(kind, "fexecve") == 0) fexecve(open(real, O_RDONLY | O_CLOEXEC), arguments, environ);
  if (strcmp(kind, "execveat") == 0) execveat(AT_FDCWD, real, arguments, environ, 0);
  if (strcmp(kind, "clean") == 0) {
    char facts[700];
    snprintf(facts, sizeof(facts), "TEST_FACTS=%s", getenv("TEST_FACTS"));
    char* environment[] = {facts, "MARKER=clean", NULL};
    execve(real, arguments, environment);
  }
  if (strcmp(kind, "fail") == 0) {
    errno = 0;
    const int result = execv("/no/such/program", arguments);
    printf("failed: %d %s\n", result, strerrorname_np(errno));
    return 0;
  }
  if (strcmp(kind, "spawn") == 0) {
    pid_t pid = 0;
    PrintStatus("posix_spawn", posix_spawn(&pid, real, NULL, NULL, arguments, environ), &pid);
    PrintStatus("posix_spawnp", posix_spawnp(&pid, real, NULL, NULL, arguments, environ), &pid);
    const int missing = posix_spawn(&pid, "/no/such/program", NULL, NULL, arguments, environ);
    printf("missing: %s\n", strerrorname_np(missing));
    return 0;
  }
  if (strcmp(kind, "vfork") == 0) {
    const pid_t pid = vfork();
    if (pid == 0) {
      execv(real, arguments);
      _exit(1);
    }
    PrintStatus("vfork", 0, &pid);
    return 0;
  }
  if (strcmp(kind, "system") == 0) {
    char command[700];
    snprintf(command, sizeof(command), "'%s' end by system; exit 9", real);
    const int status = system(command);
    printf("system: %d\n", WEXITSTATUS(status));
    FILE* pipe = popen("echo from popen", "r");
    char line[100];
    if (pipe == NULL || fgets(line, sizeof(line), pipe) == NULL) return 1;
    printf("popen: %s", line);
    printf("pclose: %d\n", pclose(pipe));
    return 0;
  }
  return 99;
}
