// SPDX-License-Identifier: Apache-2.0
//
// A device fault: what comes after it, and that only a reset of the device gets rid of it, where that is possible.
//
//   faults [illegal_address | launch_failure | device_assert | none]
#include <assert.h>
#include <string.h>

#include "common.h"

__global__ void fine_for_nanoseconds(long long duration) { WaitNs(duration); }
// The simulator goes by the names.
__global__ void illegal_address() { *(volatile int*)8 = 1; }
__global__ void launch_failure() { __trap(); }
__global__ void device_assert() { assert(threadIdx.x > 32); }

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "illegal_address";
  fine_for_nanoseconds<<<1, 32>>>(1000);
  CHECK(cudaDeviceSynchronize());
  if (strcmp(which, "illegal_address") == 0) illegal_address<<<1, 32>>>();
  if (strcmp(which, "launch_failure") == 0) launch_failure<<<1, 32>>>();
  if (strcmp(which, "device_assert") == 0) device_assert<<<1, 32>>>();
  Fact("launch", cudaGetLastError());
  Fact("synchronize", cudaDeviceSynchronize());
  void* memory = nullptr;
  Fact("malloc", cudaMalloc(&memory, 100));
  fine_for_nanoseconds<<<1, 32>>>(1000);
  Fact("launch_after", cudaGetLastError());
  Fact("synchronize_after", cudaDeviceSynchronize());
  // A configuration that no device accepts is the caller's fault, and not sticky.
  fine_for_nanoseconds<<<1, 4096>>>(1000);
  Fact("bad_configuration", cudaGetLastError());
  return 0;
}
