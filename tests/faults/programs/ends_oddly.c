// SPDX-License-Identifier: Apache-2.0
// ends_oddly WAY: the ways to end that `ends` and `survive` do not have. Each after a record that must be there.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "facts.h"

static pthread_key_t key;

static void Destructor(void* value) {
  free(value);
  free(malloc(1000));
  usleep(1000);
}

static void* Detached(void* argument) {
  (void)argument;
  pthread_setspecific(key, malloc(100));
  for (;;) {
    free(malloc(100));
    usleep(100);
  }
  return NULL;
}

static void* LeavesAtTheEnd(void* argument) {
  pthread_join(*(pthread_t*)argument, NULL);
  pthread_setspecific(key, malloc(100));
  printf("last thread\n");
  fflush(stdout);
  exit(3);
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "";
  const struct rlimit limit = {0, 0};
  if (strcmp(way, "core") != 0) setrlimit(RLIMIT_CORE, &limit);
  pthread_key_create(&key, Destructor);
  usleep(1000);  // here: before
  printf("%s\n", way);
  fflush(stdout);
  if (strcmp(way, "quick_exit") == 0) quick_exit(3);
  if (strcmp(way, "exit_group") == 0) syscall(SYS_exit_group, 3);
  if (strcmp(way, "fpe") == 0) {
#if defined(__x86_64__)
    static volatile int one = 1, zero;
    return one / zero;
#else
    raise(SIGFPE);  // a division by zero is none elsewhere
#endif
  }
  if (strcmp(way, "ill") == 0) __builtin_trap();
  if (strcmp(way, "bus") == 0) {
    char name[] = "/tmp/tbprof-test-XXXXXX";
    const int fd = mkstemp(name);
    unlink(name);
    volatile char* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    return page[0];
  }
  if (strcmp(way, "core") == 0) abort();
  if (strcmp(way, "detached") == 0) {
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) {
      pthread_create(&threads[i], NULL, Detached, NULL);
      pthread_detach(threads[i]);
    }
    usleep(20000);
    return 3;
  }
  if (strcmp(way, "pthread_exit") == 0) {
    static pthread_t self;
    pthread_t thread;
    self = pthread_self();
    pthread_create(&thread, NULL, LeavesAtTheEnd, &self);
    pthread_setspecific(key, malloc(100));
    pthread_exit(NULL);
  }
  return 2;
}
