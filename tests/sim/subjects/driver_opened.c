// SPDX-License-Identifier: Apache-2.0
//
// A driver-API program as Triton or JAX is one: libcuda.so.1 by dlopen, each function by dlsym, or (with a second
// argument) by cuGetProcAddress.
#include <dlfcn.h>
#include <stdlib.h>

static void* library;
static void* Find(const char* name);

#define NAME_OF(name) #name
#define CALL(name) ((__typeof__(&name))Find(NAME_OF(name)))
#include "vector_add.h"

typedef CUresult (*GetProcAddress)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
static GetProcAddress get;

static void* Find(const char* name) {
  void* function = NULL;
  if (get != NULL) {
    // The base name and the version of the toolkit, as cudaGetDriverEntryPoint does it.
    char base[64];
    snprintf(base, sizeof(base), "%s", name);
    char* suffix = strstr(base, "_v2");
    if (suffix != NULL) *suffix = '\0';
    CUdriverProcAddressQueryResult status;
    if (get(base, &function, 12000, 0, &status) != CUDA_SUCCESS) function = NULL;
  } else {
    function = dlsym(library, name);
  }
  if (function == NULL) {
    fprintf(stderr, "no %s\n", name);
    exit(1);
  }
  return function;
}

int main(int argc, char** argv) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  if (argc > 2) get = (GetProcAddress)dlsym(library, "cuGetProcAddress_v2");
  return VectorAdd(argc > 1 ? atoi(argv[1]) : 5);
}
