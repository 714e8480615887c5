// SPDX-License-Identifier: Apache-2.0
//
// unified [ROUNDS]: managed memory that the host and the device write in turn, and that is fetched ahead.
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static const size_t kBytes = 1 << 20;

// On a real device the write is all that is needed.
__attribute__((noinline)) static void WriteFromHost(unsigned char* memory, unsigned char value) {
  typedef void (*Touch)(unsigned long long, size_t);
  static Touch touch = (Touch)dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuSimTouchFromHost");
  if (touch != nullptr) touch((unsigned long long)memory, kBytes);
  memset(memory, value, kBytes);
}

int main(int argc, char** argv) {
  const long long rounds = Argument(argc, argv, 1, 4);
  unsigned char* managed = nullptr;
  CHECK(cudaMallocManaged(&managed, kBytes));
  CHECK(cudaDeviceSynchronize());
  // Counters are turned on after cuInit, by a thread of the profiler's.
  usleep(500000);
  long long to_device = 0, to_host = 0, prefetched = 0;
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  for (long long round = 0; round < rounds; ++round) {
    WriteFromHost(managed, (unsigned char)round);
    CHECK(cudaMemset(managed, 1, kBytes));
    CHECK(cudaDeviceSynchronize());
    ++to_device;
    WriteFromHost(managed, 2);
    ++to_host;
    CHECK(cudaMemPrefetchAsync(managed, kBytes, device, 0, 0));
    CHECK(cudaDeviceSynchronize());
    ++to_device, ++prefetched;
    WriteFromHost(managed, 3);
    ++to_host;
  }
  CHECK(cudaFree(managed));
  Fact("bytes", kBytes);
  Fact("to_device", to_device);
  Fact("to_host", to_host);
  Fact("prefetched", prefetched);
  return 0;
}
