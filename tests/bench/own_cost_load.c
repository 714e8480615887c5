// SPDX-License-Identifier: Apache-2.0
// own_cost_load KIND TURNS: work whose every turn meets a hook. Built and run by own_cost.sh.
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void Allocate(long turns) {
  // Sizes and lifetimes of a mixed program: up to 1 KiB, a window of 256 blocks alive.
  static void* alive[256];
  unsigned random = 1;
  for (long i = 0; i < turns; ++i) {
    random = random * 1103515245u + 12345u;
    void** const place = &alive[(random >> 8) % 256];
    free(*place);
    *place = malloc(16 + (random >> 16) % 1009);
    *(volatile char*)*place = 1;
  }
}

static void Small(long turns) {  // the same small block again: the cheapest call there is
  for (long i = 0; i < turns; ++i) free((void*)(*(void* volatile[]){malloc(48)}));
}

static void Short(long turns) {  // waits that end at once: counted
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 1);
  for (long i = 0; i < turns; ++i) pthread_barrier_wait(&barrier);
}

static void Uncontended(long turns) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (long i = 0; i < turns; ++i) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
}

static void Read(long turns) {  // below the threshold: counted
  const int file = open("/dev/zero", O_RDONLY);
  char byte;
  for (long i = 0; i < turns; ++i) (void)!read(file, &byte, 1);
}

static void Records(long turns) {  // above it: each a record
  const int file = open("/dev/zero", O_RDONLY);
  static char buffer[128 * 1024];
  for (long i = 0; i < turns; ++i) (void)!read(file, buffer, sizeof(buffer));
}

static void Processes(long turns) {
  for (long i = 0; i < turns; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/true", "true", (char*)NULL);
      _exit(1);
    }
    waitpid(pid, NULL, 0);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const long turns = atol(argv[2]);
  const struct {
    const char* name;
    void (*run)(long);
  } kinds[] = {{"allocate", Allocate}, {"small", Small},     {"short", Short},        {"uncontended", Uncontended},
               {"read", Read},         {"records", Records}, {"processes", Processes}};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
    if (strcmp(kinds[i].name, argv[1]) != 0) continue;
    kinds[i].run(turns);
    return 0;
  }
  return 2;
}
