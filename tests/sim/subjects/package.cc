// SPDX-License-Identifier: Apache-2.0
// A library that brings its own CUDA runtime: built twice, against that of CUDA 12 and of 13 (two_runtimes.c).
#include <cuda_runtime_api.h>

extern "C" __attribute__((visibility("default"))) int package_runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : -1;
}
extern "C" __attribute__((visibility("default"))) int package_allocates() {
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, 1000);
  return result == cudaSuccess ? cudaFree(memory) : result;
}
