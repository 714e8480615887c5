// SPDX-License-Identifier: Apache-2.0
//
// Several drivers in one process, each with a context of its own: libcuda.so.1 as the loader finds it, and copies.
//
//   drivers COPY|-... [deep] [namespace] [linked]
//
// deep: the copies are opened with RTLD_DEEPBIND; namespace: with dlmopen. Of a forwarding driver the number of calls
// that went through it is printed: it is the same with any observer.
#include <cuda.h>
#include <dlfcn.h>

#include "common.h"

static void* library;
static void* Find(const char* name) {
  void* function = dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  return function;
}
#define NAME_OF(name) #name
#define CALL(name) ((__typeof__(&name))Find(NAME_OF(name)))
#include "vector_add.h"

static void* Open(const char* path, int deep, int apart) {
  void* opened = apart ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW | (deep ? RTLD_DEEPBIND : 0));
  if (opened == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return opened;
}

static int RunOn(void* opened, int launches) {
  library = opened;
  const int result = VectorAdd(launches);
  long long (*forwarded)(void) = (long long (*)(void))dlsym(opened, "cuForwarderCalls");
  if (forwarded != NULL) Fact("forwarded", forwarded());
  return result;
}

int main(int argc, char** argv) {
  int deep = 0, apart = 0, copies_only = 0;
  for (int i = 1; i < argc; ++i) {
    deep |= strcmp(argv[i], "deep") == 0;
    apart |= strcmp(argv[i], "namespace") == 0;
    copies_only |= strcmp(argv[i], "copies") == 0;
  }
  int result = 0;
  // Each is used before the next one is opened, and again when all are.
  void* opened[8];
  int count = 0;
  if (!copies_only) {
    opened[count++] = Open("libcuda.so.1", 0, 0);
    result |= RunOn(opened[0], 3);
  }
  for (int i = 1; i < argc && count < 8; ++i) {
    if (argv[i][0] != '/') continue;
    opened[count] = Open(argv[i], deep, apart);
    result |= RunOn(opened[count++], 5);
  }
  for (int i = 0; i < count; ++i) result |= RunOn(opened[i], 2);
  return result;
}
