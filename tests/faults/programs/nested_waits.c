// SPDX-License-Identifier: Apache-2.0
// A wait interrupted by a signal handler that waits, too, and goes on after it; another one left by siglongjmp.
// nested_waits [handler | alternate | jump]: then waits in read() for ever, to be killed.
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#include "facts.h"

static int ends[2];
static sigjmp_buf jump;
static volatile int jumps;

static void OnAlarm(int signo) {
  (void)signo;
  if (jumps) siglongjmp(jump, 1);
  usleep(2000);
  Report("handled", 1);
}

static __attribute__((noinline)) void ReadForEver(void) {
  char byte;
  (void)!read(ends[0], &byte, 1);  // here: for ever
}

static __attribute__((noinline)) void Deeper(int depth) {
  volatile char room[256];
  room[0] = (char)depth;
  if (depth > 0) {
    Deeper(depth - 1);
  } else {
    usleep(2000);
  }
  (void)room[0];
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "handler";
  Report("pid", (uint64_t)getpid());
  if (pipe(ends) != 0) return 1;
  struct sigaction action = {.sa_handler = OnAlarm, .sa_flags = SA_RESTART};
  if (strcmp(kind, "alternate") == 0) {
    static char room[65536];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
    sigaltstack(&stack, NULL);
    action.sa_flags |= SA_ONSTACK;
  }
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval once = {{0, 0}, {0, 50000}};
  if (strcmp(kind, "jump") == 0) {
    jumps = 1;
    setitimer(ITIMER_REAL, &once, NULL);
    if (sigsetjmp(jump, 1) == 0) ReadForEver();
    // The abandoned wait lies where these frames are now.
    Deeper(4);
    Report("handled", 1);
    for (;;) SleepUnseen(1000);
  }
  setitimer(ITIMER_REAL, &once, NULL);
  ReadForEver();
  return 0;
}
