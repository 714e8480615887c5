// SPDX-License-Identifier: Apache-2.0
// All that a program can see of how it was started.
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <termios.h>

#include "facts.h"

extern char** environ;

static void PrintBytes(const char* text) {
  for (; *text != '\0'; ++text) {
    if (*text >= ' ' && *text < 127) {
      putchar(*text);
    } else {
      printf("\\%02x", (unsigned char)*text);
    }
  }
  putchar('\n');
}

static int Compare(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

int main(int argc, char** argv) {
  const int error = errno;
  const char* complaint = dlerror();
  printf("errno %d, the loader's complaint: %s\n", error, complaint != NULL ? complaint : "none");
  printf("%d arguments\n", argc);
  for (int i = 0; i < argc; ++i) PrintBytes(argv[i]);
  char directory[4096];
  printf("cwd %s\n", getcwd(directory, sizeof(directory)));

  int count = 0;
  while (environ[count] != NULL) ++count;
  char** sorted = malloc(sizeof(char*) * (size_t)(count + 1));
  memcpy(sorted, environ, sizeof(char*) * (size_t)count);
  qsort(sorted, (size_t)count, sizeof(char*), Compare);
  for (int i = 0; i < count; ++i) {
    if (strncmp(sorted[i], "LD_PRELOAD=", 11) == 0 || strncmp(sorted[i], "TBPROF_", 7) == 0 ||
        strncmp(sorted[i], "TEST_FACTS=", 11) == 0 || strncmp(sorted[i], "CUDA_INJECTION64_PATH=", 22) == 0 ||
        strncmp(sorted[i], "NVTX_INJECTION64_PATH=", 22) == 0) {
      continue;
    }
    PrintBytes(sorted[i]);
  }
  free(sorted);

  const mode_t mask = umask(0);
  printf("umask %o\n", (unsigned)mask);
  for (int i = 0; i < RLIMIT_NLIMITS; ++i) {
    struct rlimit limit;
    if (getrlimit(i, &limit) == 0)
      printf("limit %d %lu %lu\n", i, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
  }
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) continue;
    printf("descriptor %d: mode %o flags %x close-on-exec %d\n", fd, status.st_mode & S_IFMT, fcntl(fd, F_GETFL),
           fcntl(fd, F_GETFD));
  }
  printf("leads its group %d, leads its session %d\n", getpgrp() == getpid(), getsid(0) == getpid());
  Report("group", (uint64_t)getpgrp());
  Report("session", (uint64_t)getsid(0));
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
  struct termios modes;
  printf("terminal %d, on standard input %d, its modes %d, in the foreground %d\n", terminal >= 0, isatty(0),
         tcgetattr(0, &modes), terminal >= 0 && tcgetpgrp(terminal) == getpgrp());
  errno = 0;
  printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof(cpus), &cpus);
  printf("cpus");
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &cpus)) printf(" %d", i);
  }
  printf("\nscheduler %d\n", sched_getscheduler(0));
  sigset_t blocked, pending;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  sigpending(&pending);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action;
    if (sigaction(signal, NULL, &action) != 0) continue;
    const char* what = action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handled";
    printf("signal %d %s blocked %d pending %d\n", signal, what, sigismember(&blocked, signal),
           sigismember(&pending, signal));
  }
  struct itimerval timer;
  getitimer(ITIMER_REAL, &timer);
  printf("alarm %d\n", timer.it_value.tv_sec > 0);
  printf("dumpable %d, no new privileges %d, subreaper ", prctl(PR_GET_DUMPABLE),
         prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  int subreaper = 0, death = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  prctl(PR_GET_PDEATHSIG, &death);
  printf("%d, death signal %d\n", subreaper, death);
  char name[17] = "";
  prctl(PR_GET_NAME, name);
  printf("name %s\n", name);
  printf("uid %d %d gid %d %d\n", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
  // Threads, as the kernel counts them.
  char path[] = "/proc/self/status", line[256];
  FILE* status = fopen(path, "r");
  while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
    if (strncmp(line, "Threads:", 8) == 0 || strncmp(line, "Seccomp", 7) == 0 || strncmp(line, "Cap", 3) == 0)
      fputs(line, stdout);
  }
  if (status != NULL) fclose(status);
  return 0;
}
