// SPDX-License-Identifier: Apache-2.0
//
// A device that is used and reset again and again: each time its context goes with all that is in it.
//
//   resets [COUNT]
#include "common.h"

__global__ void before_for_nanoseconds(long long duration) { WaitNs(duration); }

int main(int argc, char** argv) {
  const long long count = Argument(argc, argv, 1, 100);
  for (long long i = 0; i < count; ++i) {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4096));
    before_for_nanoseconds<<<1, 32>>>(1000);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceReset());
  }
  Fact("kernels", count);
  Fact("kernel_ns", count * 1000);
  return 0;
}
