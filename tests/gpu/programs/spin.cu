// SPDX-License-Identifier: Apache-2.0
//
// Kernels of a known number and length, on a GPU and on the simulator alike; prints what it did as `key=value` lines.
//
//   spin [LAUNCHES] [KERNEL_NS] [PAUSE_US]   waits for the device after each launch, then pauses
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                               \
  do {                                                                                            \
    const cudaError_t check_result = (call);                                                      \
    if (check_result != cudaSuccess) {                                                            \
      fprintf(stderr, "%s: %d %s\n", #call, (int)check_result, cudaGetErrorString(check_result)); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

__device__ unsigned long long DeviceTime() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_for_nanoseconds(long long duration) {
  const unsigned long long start = DeviceTime();
  while ((long long)(DeviceTime() - start) < duration) {
  }
}

static long long Argument(int argc, char** argv, int index, long long value) {
  return argc > index ? atoll(argv[index]) : value;
}

int main(int argc, char** argv) {
  const long long launches = Argument(argc, argv, 1, 200), ns = Argument(argc, argv, 2, 200000);
  const long long pause_us = Argument(argc, argv, 3, 0);
  const size_t bytes = 1 << 20;
  char* host = (char*)calloc(1, bytes);
  void* device;
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device, 3, bytes));
  for (long long i = 0; i < launches; ++i) {
    spin_for_nanoseconds<<<1, 32>>>(ns);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const struct timespec pause = {(time_t)(pause_us / 1000000), (long)(pause_us % 1000000 * 1000)};
    if (pause_us > 0) nanosleep(&pause, nullptr);
  }
  CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  printf("kernels=%lld\nkernel_ns=%lld\ncopies_to_device=1\ncopies_from_device=1\nsets=1\nlast=%d\n", launches,
         launches * ns, host[bytes - 1]);
  free(host);
  return 0;
}
