// SPDX-License-Identifier: Apache-2.0
//
// Collective operations as a data-parallel training has them. Built twice: linked to libnccl (collectives_linked) and
// opening it (collectives_opened), as JAX does.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

extern int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
extern int ncclAllGather(const void*, void*, size_t, int, void*, void*);
extern int ncclSend(const void*, size_t, int, int, void*, void*);
extern int ncclGroupStart(void);
extern int ncclGroupEnd(void);

#ifdef COLLECTIVES_OPEN
static void* nccl;
static void* Find(const char* name) {
  void* function = dlsym(nccl, name);
  if (function == NULL) exit(3);
  return function;
}
#define NCCL(name) ((__typeof__(&name))Find(#name))
#else
#define NCCL(name) name
#endif

int main(int argc, char** argv) {
  enum { kFloat = 7, kBfloat = 9, kNoType = 99 };
  const int steps = argc > 1 ? atoi(argv[1]) : 5;
  char communicator[16], gradients[16];
#ifdef COLLECTIVES_OPEN
  nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (nccl == NULL) return 2;
#endif
  int failed = 0;
  for (int step = 0; step < steps; ++step) {
    failed += NCCL(ncclAllReduce)(gradients, gradients, 1000, kFloat, 0, communicator, NULL) != 0;
    failed += NCCL(ncclGroupStart)() != 0;
    failed += NCCL(ncclAllGather)(gradients, gradients, 300, kBfloat, communicator, NULL) != 0;
    failed += NCCL(ncclSend)(gradients, 10, kFloat, 1, communicator, NULL) != 0;
    failed += NCCL(ncclGroupEnd)() != 0;
  }
  printf("failed=%d\n", failed);
  printf("no_type=%d\n", NCCL(ncclAllReduce)(gradients, gradients, 1000, kNoType, 0, communicator, NULL));
  return 0;
}
