// SPDX-License-Identifier: Apache-2.0
//
// profiler_switch [ROUNDS]: kernels `outside` before, between and after cudaProfilerStart and cudaProfilerStop, and 100
// kernels `inside`, in 200 ms, each time. What the two return is printed.
#include <cuda_profiler_api.h>
#include <time.h>

#include "common.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
static void nvtxMarkA(const char*) {}
#endif

__global__ void outside(long long nanoseconds) { WaitNs(nanoseconds); }
__global__ void inside(long long nanoseconds) { WaitNs(nanoseconds); }

static void Pause(long milliseconds) {
  const timespec length = {0, milliseconds * 1'000'000};
  nanosleep(&length, nullptr);
}

static void Outside() {
  for (int i = 0; i < 7; ++i) outside<<<1, 32>>>(20000);
  CHECK(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  const long long rounds = Argument(argc, argv, 1, 2);
  cudaError_t start = cudaSuccess, stop = cudaSuccess;
  for (long long i = 0; i < rounds; ++i) {
    Outside();
    Pause(300);
    nvtxMarkA("not in the window");
    start = cudaProfilerStart();
    nvtxMarkA("in the window");
    for (int kernel = 0; kernel < 100; ++kernel) {
      inside<<<1, 32>>>(20000);
      Pause(2);
    }
    CHECK(cudaDeviceSynchronize());
    stop = cudaProfilerStop();
    nvtxMarkA("not in the window");
    Outside();
  }
  printf("start=%d stop=%d\n", static_cast<int>(start), static_cast<int>(stop));
  return 0;
}
