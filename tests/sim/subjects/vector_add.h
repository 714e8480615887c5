// SPDX-License-Identifier: Apache-2.0
//
// The driver-API programs: one text for the program that is linked to libcuda.so.1 and for the one that opens it
// itself. CALL(name) is the function.
#ifndef TBPROF_TESTS_SIM_SUBJECTS_VECTOR_ADD_H_
#define TBPROF_TESTS_SIM_SUBJECTS_VECTOR_ADD_H_

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static const char kImage[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry vector_add_for_nanoseconds(.param .u64 d, .param .u64 a, .param .u64 n) { ret; }\n";

static int VectorAdd(int launches) {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUstream stream;
  CUdeviceptr memory;
  char host[4096];
  MUST(CALL(cuInit)(0));
  MUST(CALL(cuDeviceGet)(&device, 0));
  MUST(CALL(cuDevicePrimaryCtxRetain)(&context, device));
  MUST(CALL(cuCtxSetCurrent)(context));
  MUST(CALL(cuModuleLoadData)(&module, kImage));
  MUST(CALL(cuModuleGetFunction)(&function, module, "vector_add_for_nanoseconds"));
  if (CALL(cuModuleGetFunction)(&function, module, "no_such_kernel") != CUDA_ERROR_NOT_FOUND) return 1;
  MUST(CALL(cuModuleGetFunction)(&function, module, "vector_add_for_nanoseconds"));
  MUST(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  MUST(CALL(cuMemAlloc)(&memory, sizeof(host)));
  memset(host, 1, sizeof(host));
  MUST(CALL(cuMemcpyHtoD)(memory, host, sizeof(host)));
  for (int i = 0; i < launches; ++i) {
    unsigned long long duration = 50000, count = sizeof(host);
    void* arguments[] = {&duration, &memory, &count};
    MUST(CALL(cuLaunchKernel)(function, 8, 1, 1, 64, 1, 1, 0, stream, arguments, NULL));
  }
  MUST(CALL(cuStreamSynchronize)(stream));
  MUST(CALL(cuMemcpyDtoH)(host, memory, sizeof(host)));
  MUST(CALL(cuMemFree)(memory));
  MUST(CALL(cuStreamDestroy)(stream));
  MUST(CALL(cuModuleUnload)(module));
  MUST(CALL(cuDevicePrimaryCtxRelease)(device));
  printf("kernels=%d\nkernel_ns=%lld\ncopies_to_device=1\ncopies_from_device=1\n", launches, launches * 50000LL);
  return 0;
}

#endif  // TBPROF_TESTS_SIM_SUBJECTS_VECTOR_ADD_H_
