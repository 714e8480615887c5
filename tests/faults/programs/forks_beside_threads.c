// SPDX-License-Identifier: Apache-2.0
// forks_beside_threads ROUNDS: forks while other threads allocate, lock and record without end. Each child does the
// same once: with a lock of ours that a thread held at the fork, it would hang.
#include <pthread.h>
#include <sys/wait.h>

#include "facts.h"

static int null_fd;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void* Work(void* argument) {
  for (;;) {
    void* block = malloc(100);
    free(realloc(block, 100000));
    pthread_mutex_lock(&mutex);
    if (write(null_fd, "x", 1) != 1) abort();
    pthread_mutex_unlock(&mutex);
    usleep(10);
  }
  return argument;
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 1000;
  null_fd = open("/dev/null", O_WRONLY);
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, Work, NULL);
    pthread_detach(thread);
  }
  long bad = 0;
  for (long i = 0; i < rounds; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      free(malloc(100000));
      free(malloc(100));
      _exit(write(null_fd, "x", 1) == 1 ? 0 : 1);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++bad;
  }
  printf("bad %ld\n", bad);
  fflush(stdout);
  _exit(0);
}
