// SPDX-License-Identifier: Apache-2.0
// Built with ThreadSanitizer. tsan_works [race]: two threads write to one place without a lock.
#include <pthread.h>

#include "facts.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int guarded, unguarded, races;

static void* Work(void* argument) {
  for (int i = 0; i < 1000; ++i) {
    pthread_mutex_lock(&mutex);
    ++guarded;
    pthread_mutex_unlock(&mutex);
    if (races) ++unguarded;
  }
  free(malloc(1000));
  return argument;
}

int main(int argc, char** argv) {
  races = argc > 1 && strcmp(argv[1], "race") == 0;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Work, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("works %d\n", guarded);
  return 3;
}
