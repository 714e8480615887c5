// SPDX-License-Identifier: Apache-2.0
// Makes the CPU's clock counter fault (PR_SET_TSC) while other threads wait, then makes hooked calls in each of them,
// in threads made later and in fork children. x86 only; elsewhere prctl fails and nothing else changes.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "facts.h"

static int ends[2];

static void Work(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 100; ++i) free(malloc(200000));
  pthread_mutex_lock(&mutex);
  usleep(100);
  pthread_mutex_unlock(&mutex);
}

static void* Waits(void* argument) {
  char byte;
  (void)!read(ends[0], &byte, 1);
  Work();
  return argument;
}

int main(void) {
  if (pipe(ends) != 0) return 1;
  pthread_t thread, later;
  pthread_create(&thread, NULL, Waits, NULL);
  usleep(2000);  // here: before
  printf("set: %d\n", prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
  fflush(stdout);
  Work();
  (void)!write(ends[1], "x", 1);
  pthread_join(thread, NULL);
  pthread_create(&later, NULL, (void* (*)(void*))(void*)Waits, NULL);
  (void)!write(ends[1], "x", 1);
  pthread_join(later, NULL);
  const pid_t child = fork();
  if (child == 0) {
    Work();
    _exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child: %d\n", WEXITSTATUS(status));
  return 4;
}
