// SPDX-License-Identifier: Apache-2.0
// forks_in_handler [ROUNDS]: records as fast as it can, while a timer's handler allocates,
// records, and forks children that do the same, by fork and by the system call. Every process prints how many calls it
// has made.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "facts.h"

static int null_fd;
static volatile int rounds_left;
static volatile uint64_t writes;
static volatile sig_atomic_t in_write;
static volatile sig_atomic_t is_child;

static void Write(void) {
  ++in_write;
  if (write(null_fd, "x", 1) == 1) __atomic_fetch_add(&writes, 1, __ATOMIC_RELAXED);
  --in_write;
}

static void OnAlarm(int signo) {
  (void)signo;
  if (is_child || rounds_left <= 0) return;
  Write();
  // A handler that allocates, in the middle of other calls; main is never in malloc.
  free(realloc(malloc(100), 200000));
  --rounds_left;
  const pid_t child = rounds_left % 2 == 0 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    is_child = 1;
    // The one that was interrupted comes back here, too, and is the parent's.
    writes = in_write ? (uint64_t)-1 : 0;
    const struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    Write();
    return;  // into whatever was interrupted
  }
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  if (status != 0) Report("bad_child", (uint64_t)status);
}

int main(int argc, char** argv) {
  rounds_left = argc > 1 ? atoi(argv[1]) : 100;
  null_fd = open("/dev/null", O_WRONLY);
  struct sigaction action = {.sa_handler = OnAlarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval timer = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  int left = 200;
  while (is_child ? --left > 0 : rounds_left > 0) {
    for (int i = 0; i < 20; ++i) Write();
    // Not by malloc: what the child would return into may hold its lock. The allocator of a fork child is the
    // program's own affair (fork in a handler that has interrupted malloc is undefined).
  }
  if (is_child) {
    Report("child_writes", writes);
    _exit(0);
  }
  const struct itimerval off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &off, NULL);
  Report("writes", writes);
  printf("done\n");
  return 0;
}
