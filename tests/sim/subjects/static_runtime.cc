// SPDX-License-Identifier: Apache-2.0
//
// A program with the runtime linked in, as nvcc's default is: no cuda symbol is visible from outside, and the driver is
// reached through one dlsym. It registers its kernel as compiled code does.
#include <cuda_runtime_api.h>

#include "common.h"

extern "C" void** __cudaRegisterFatBinary(void* binary);
extern "C" void __cudaRegisterFatBinaryEnd(void** handle);
extern "C" void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                                       uint3*, uint3*, dim3*, dim3*, int*);

static void HostStub(long long) {}

static const char kImage[] = ".version 8.0\n.target sm_90\n.visible .entry static_for_nanoseconds(.param .u64 d) {}\n";

__attribute__((constructor)) static void Register() {
  void** handle = __cudaRegisterFatBinary(const_cast<char*>(kImage));
  __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&HostStub), nullptr, "static_for_nanoseconds", -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFatBinaryEnd(handle);
}

int main(int argc, char** argv) {
  const long long launches = Argument(argc, argv, 1, 5);
  long long duration = 50000;
  void* arguments[] = {&duration};
  char host[256] = {};
  void* device = nullptr;
  CHECK(cudaMalloc(&device, sizeof(host)));
  CHECK(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice));
  for (long long i = 0; i < launches; ++i) {
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(&HostStub), dim3(2), dim3(32), arguments, 0, nullptr));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(device));
  Fact("kernels", launches);
  Fact("kernel_ns", launches * duration);
  Fact("copies_to_device", 1);
  return 0;
}
