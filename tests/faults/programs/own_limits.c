// SPDX-License-Identifier: Apache-2.0
// own_limits file|memory|locked|descriptors|processes: makes a limit of its own as small as its work allows, works, and
// starts itself once more under it.
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "facts.h"

extern char** environ;

static void Limit(int resource, rlim_t value) {
  struct rlimit limit;
  getrlimit(resource, &limit);
  limit.rlim_cur = value;
  if (setrlimit(resource, &limit) != 0) perror("setrlimit");
}

static void* Nothing(void* argument) { return argument; }

static void Work(void) {
  int ends[2];
  if (pipe(ends) != 0) perror("pipe");
  char byte = 'x';
  int good = 0;
  for (int i = 0; i < 20000; ++i) good += write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  void* blocks[64];
  int allocated = 0;
  for (int i = 0; i < 64; ++i) allocated += (blocks[i] = malloc(100000)) != NULL;
  for (int i = 0; i < 64; ++i) free(blocks[i]);
  pthread_t thread;
  const int made = pthread_create(&thread, NULL, Nothing, NULL);
  if (made == 0) pthread_join(thread, NULL);
  printf("%d pairs, %d blocks, thread: %d\n", good, allocated, made);
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* what = argv[1];
  if (strcmp(what, "file") == 0) {
    Limit(RLIMIT_FSIZE, 4096);
  } else if (strcmp(what, "memory") == 0) {
    Limit(RLIMIT_DATA, 64 << 20);
  } else if (strcmp(what, "locked") == 0) {
    Limit(RLIMIT_MEMLOCK, 0);
    printf("lock everything: %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
    munlockall();
  } else if (strcmp(what, "descriptors") == 0) {
    Limit(RLIMIT_NOFILE, 8);
  } else {
    Limit(RLIMIT_NPROC, 1);
    if (setgid(65534) != 0 || setuid(65534) != 0) errno = 0;
  }
  if (argc > 2) printf("once more\n");
  Work();
  if (argc > 2) return 9;
  char last[] = "last";
  char* const words[] = {argv[0], argv[1], last, NULL};
  execve("/proc/self/exe", words, environ);
  perror("exec");
  return 1;
}
