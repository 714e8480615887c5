// SPDX-License-Identifier: Apache-2.0
// interrupted_calls: handlers for the signals that profilers like to take, with and without SA_RESTART, and a thread in
// sigwait. Prints how often calls were interrupted, which depends on nothing but what it does itself.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "facts.h"

#define ROUNDS 50

static volatile int handled[65];
static int ends[2];
static sem_t waited;

static void Handle(int signal) { __atomic_fetch_add(&handled[signal], 1, __ATOMIC_RELAXED); }

// Every millisecond until it is stopped.
static timer_t Ticking(int signal) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) exit(1);
  const struct itimerspec every = {{0, 1000000}, {0, 1000000}};
  timer_settime(timer, 0, &every, NULL);
  return timer;
}

// Each blocked read ends with EINTR, by the first signal that finds it waiting.
static int Interrupted(int signal) {
  int interrupted = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    const timer_t timer = Ticking(signal);
    char byte;
    if (read(ends[0], &byte, 1) < 0 && errno == EINTR) ++interrupted;
    timer_delete(timer);
  }
  return interrupted;
}

static void* WritesLater(void* argument) {
  const struct timespec pause = {0, 20000000};
  nanosleep(&pause, NULL);
  if (write(ends[1], "x", 1) != 1) exit(1);
  return argument;
}

// Signals come all the time, and none of them is seen by the read.
static int Restarted(int signal) {
  const timer_t timer = Ticking(signal);
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_BLOCK, &one, &before);
  pthread_t thread;
  pthread_create(&thread, NULL, WritesLater, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  char byte;
  const int got = (int)read(ends[0], &byte, 1);
  timer_delete(timer);
  pthread_join(thread, NULL);
  return got;
}

static void* Waits(void* argument) {
  sigset_t* set = argument;
  for (int i = 0; i < ROUNDS; ++i) {
    int signal = 0;
    if (sigwait(set, &signal) != 0 || signal != SIGUSR2) exit(1);
    sem_post(&waited);
  }
  return NULL;
}

int main(void) {
  static const int kSignals[] = {SIGUSR1, SIGUSR2, SIGPROF, SIGALRM, SIGVTALRM, SIGIO};
  if (pipe(ends) != 0) return 1;
  for (int restart = 0; restart < 2; ++restart) {
    for (unsigned i = 0; i < sizeof(kSignals) / sizeof(kSignals[0]); ++i) {
      struct sigaction action = {.sa_handler = Handle, .sa_flags = restart ? SA_RESTART : 0};
      sigaction(kSignals[i], &action, NULL);
      const int count = restart ? Restarted(kSignals[i]) : Interrupted(kSignals[i]);
      printf("%s %s: %d, handled %d\n", strsignal(kSignals[i]), restart ? "restarted" : "interrupted", count,
             handled[kSignals[i]] > 0);
    }
  }

  struct sigaction action = {.sa_handler = Handle};
  sigaction(SIGCHLD, &action, NULL);
  int interrupted = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const struct timespec pause = {0, 2000000};
      nanosleep(&pause, NULL);
      _exit(0);
    }
    const struct timespec far = {10, 0};
    if (nanosleep(&far, NULL) != 0 && errno == EINTR) ++interrupted;
    while (waitpid(child, NULL, 0) != child) {
    }
  }
  printf("children: interrupted %d, handled %d\n", interrupted, handled[SIGCHLD]);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sem_init(&waited, 0, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, Waits, &set);
  for (int i = 0; i < ROUNDS; ++i) {
    pthread_kill(thread, SIGUSR2);
    while (sem_wait(&waited) != 0) {
    }
  }
  pthread_join(thread, NULL);

  // The program sends none: whatever interrupts these comes from outside.
  int odd = 0;
  for (int i = 0; i < 300; ++i) odd += usleep(1000) != 0;
  printf("waited for %d, interrupted for no reason %d\n", ROUNDS, odd);
  return 0;
}
