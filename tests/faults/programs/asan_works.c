// SPDX-License-Identifier: Apache-2.0
// Built with AddressSanitizer, as the compiler does by default. asan_works [past]: reads one byte too far, so that the
// sanitizer must see it.
#include <pthread.h>

#include "facts.h"

static void* Work(void* argument) {
  char* block = malloc(200000);
  usleep(1000);  // here: in a thread
  free(block);
  return argument;
}

int main(int argc, char** argv) {
  pthread_t thread;
  pthread_create(&thread, NULL, Work, NULL);
  pthread_join(thread, NULL);
  char* volatile block = malloc(100);
  memset(block, 7, 100);
  printf("works %d\n", block[99]);
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "past") == 0) printf("%d\n", block[99 + argc - 1]);
  free(block);
  return 3;
}
