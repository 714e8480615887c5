// SPDX-License-Identifier: Apache-2.0
//
// What the runtime says about its devices, copies between two of them, a reset, and work after the reset.
#include "common.h"

__global__ void step_for_nanoseconds(long long duration) { WaitNs(duration); }

int main() {
  int devices = 0, driver = 0, runtime = 0;
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  Fact("driver_version", driver);
  Fact("runtime_version", runtime);
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  Fact("count_result", counted);
  Fact("devices", devices);
  if (counted != cudaSuccess) return 0;
  for (int i = 0; i < devices; ++i) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, i));
    printf("device_%d=%s, %d.%d, %d processors, %zu MiB\n", i, properties.name, properties.major, properties.minor,
           properties.multiProcessorCount, properties.totalGlobalMem >> 20);
  }
  int peers = 0;
  if (devices > 1) {
    void *here, *there;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&there, 1 << 16));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&here, 1 << 16));
    CHECK(cudaDeviceCanAccessPeer(&peers, 0, 1));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaMemset(here, 9, 1 << 16));
    CHECK(cudaMemcpyPeer(there, 1, here, 0, 1 << 16));
    unsigned char back = 0;
    CHECK(cudaMemcpy(&back, there, 1, cudaMemcpyDefault));
    if (back != 9) return 1;
  }
  Fact("peers", peers);
  step_for_nanoseconds<<<1, 32>>>(1000);
  CHECK(cudaDeviceReset());
  step_for_nanoseconds<<<1, 32>>>(1000);
  CHECK(cudaDeviceSynchronize());
  Fact("kernels", 2);
  Fact("kernel_ns", 2000);
  return 0;
}
