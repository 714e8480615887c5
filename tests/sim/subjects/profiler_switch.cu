// SPDX-License-Identifier: Apache-2.0
//
// profiler_switch [ROUNDS]: kernels before, between and after cudaProfilerStart and cudaProfilerStop, and ten inside
// each time. What the two return is printed.
#include <cuda_profiler_api.h>
#include <time.h>

#include "common.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
static void nvtxMarkA(const char*) {}
#endif

__global__ void Work(long long nanoseconds) { WaitNs(nanoseconds); }

static void Launch(int count) {
  for (int i = 0; i < count; ++i) Work<<<1, 32>>>(20000);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  const long long rounds = Argument(argc, argv, 1, 2);
  cudaError_t start = cudaSuccess, stop = cudaSuccess;
  for (long long i = 0; i < rounds; ++i) {
    Launch(7);
    const timespec pause = {0, 300'000'000};
    nanosleep(&pause, nullptr);
    nvtxMarkA("outside");
    start = cudaProfilerStart();
    nvtxMarkA("inside");
    Launch(10);
    stop = cudaProfilerStop();
    nvtxMarkA("outside");
  }
  Launch(7);
  printf("start=%d stop=%d\n", static_cast<int>(start), static_cast<int>(stop));
  return 0;
}
