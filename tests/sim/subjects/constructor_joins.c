// SPDX-License-Identifier: Apache-2.0
//
// A library whose constructor waits for a thread that makes the library's first calls of the driver or of NCCL. The
// loader holds its lock meanwhile where the library is opened late (opens_plugin), so a thread that takes that lock
// hangs; a lazily bound call does not. The driver's cuInit takes it and must have been called before.
//
//   CONSTRUCTOR_CALLS=driver|nccl  what the thread calls; nothing without it
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#define CALL(name) name
#include "vector_add.h"

extern int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
extern int ncclGroupEnd(void);

static int result;

static void* Run(void* calls) {
  if (strstr(calls, "driver") != NULL) result |= VectorAdd(4);
  if (strstr(calls, "nccl") != NULL) {
    char gradients[16];
    Fact("reduced", ncclAllReduce(gradients, gradients, 1000, 7, 0, gradients, NULL));
    Fact("grouped", ncclGroupEnd());
  }
  return NULL;
}

__attribute__((constructor)) static void Construct(void) {
  pthread_t thread;
  const char* calls = getenv("CONSTRUCTOR_CALLS");
  if (calls == NULL || pthread_create(&thread, NULL, Run, (void*)calls) != 0) return;
  pthread_join(thread, NULL);
}

__attribute__((visibility("default"))) int PluginRuns(int launches) {
  (void)launches;
  return result;
}
