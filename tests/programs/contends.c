// SPDX-License-Identifier: Apache-2.0
// contends [CHILDREN]: until the file `stop` exists, the main thread takes a mutex that a thread `holder` has for 40 ms
// at a time. With CHILDREN, so many children sleep meanwhile. Fact: its pid.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "facts.h"

static pthread_mutex_t till = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void HoldTill(void) {
  pthread_mutex_lock(&till);
  usleep(40000);
  pthread_mutex_unlock(&till);
  usleep(1000);
}

static void* Hold(void* unused) {
  pthread_setname_np(pthread_self(), "holder");
  for (;;) HoldTill();
  return unused;
}

__attribute__((noinline)) static int TakeTill(void) {
  pthread_mutex_lock(&till);
  pthread_mutex_unlock(&till);
  return access("stop", F_OK);
}

int main(int argc, char** argv) {
  const int children = argc > 1 ? atoi(argv[1]) : 0;
  pid_t pids[16] = {0};
  for (int i = 0; i < children && i < 16; ++i) {
    pids[i] = fork();
    if (pids[i] == 0) {
      for (;;) usleep(10000);
    }
  }
  pthread_t thread;
  pthread_create(&thread, NULL, Hold, NULL);
  Report("pid", (uint64_t)getpid());
  while (TakeTill() != 0) {
  }
  for (int i = 0; i < children && i < 16; ++i) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  printf("stopped\n");
  return 23;
}
