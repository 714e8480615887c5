// SPDX-License-Identifier: Apache-2.0
//
// cuLaunchHostFunc in both versions, as cudart 13.2 and later look it up: with 10000 and then with 13010, whose fourth
// argument is checked by the driver (tests/sim/forwarder.cc).
#include <cuda.h>
#include <dlfcn.h>

#include "common.h"

typedef CUresult (*GetProcAddress)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
typedef CUresult (*LaunchFirst)(CUstream, CUhostFn, void*);
typedef CUresult (*LaunchSecond)(CUstream, CUhostFn, void*, unsigned int);

static void Count(void* count) { ++*(int*)count; }

int main(int argc, char** argv) {
  const int rounds = (int)Argument(argc, argv, 1, 5);
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return 2;
  const GetProcAddress get = (GetProcAddress)dlsym(library, "cuGetProcAddress_v2");
  void *first = NULL, *second = NULL, *synchronize = NULL, *retain = NULL, *set = NULL, *start = NULL;
  CUdriverProcAddressQueryResult status;
  MUST(get("cuInit", &start, 2000, 0, &status));
  MUST(((CUresult(*)(unsigned))start)(0));
  MUST(get("cuLaunchHostFunc", &first, 10000, 0, &status));
  MUST(get("cuLaunchHostFunc", &second, 13010, 0, &status));
  MUST(get("cuCtxSynchronize", &synchronize, 12000, 0, &status));
  MUST(get("cuDevicePrimaryCtxRetain", &retain, 7000, 0, &status));
  MUST(get("cuCtxSetCurrent", &set, 4000, 0, &status));
  CUcontext context;
  MUST(((CUresult(*)(CUcontext*, CUdevice))retain)(&context, 0));
  MUST(((CUresult(*)(CUcontext))set)(context));
  int count = 0, refused = 0;
  for (int i = 0; i < rounds; ++i) {
    MUST(((LaunchFirst)first)(NULL, Count, &count));
    MUST(((LaunchSecond)second)(NULL, Count, &count, i % 2));
    refused += ((LaunchSecond)second)(NULL, Count, &count, 7) != CUDA_SUCCESS;
  }
  MUST(((CUresult(*)(void))synchronize)());
  printf("distinct=%d\nhost_functions=%d\nrefused=%d\n", first != second, count, refused);
  return 0;
}
