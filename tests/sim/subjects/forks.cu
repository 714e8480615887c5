// SPDX-License-Identifier: Apache-2.0
//
// A child made after CUDA was used: there CUDA answers that it is not initialised, and the parent goes on. A child that
// executes a new program starts clean.
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

__global__ void parent_for_nanoseconds(long long duration) { WaitNs(duration); }

int main(int argc, char** argv) {
  if (argc > 1) {
    parent_for_nanoseconds<<<1, 32>>>(1000);
    return cudaDeviceSynchronize();
  }
  parent_for_nanoseconds<<<1, 32>>>(100000);
  CHECK(cudaDeviceSynchronize());
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    void* memory = nullptr;
    const int counted = cudaGetDeviceCount(&count);
    const int allocated = cudaMalloc(&memory, 10);
    parent_for_nanoseconds<<<1, 32>>>(1000);
    const int launched = cudaGetLastError();
    _exit(counted == cudaErrorInitializationError && allocated == cudaErrorInitializationError &&
                  launched == cudaErrorInitializationError
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Fact("child", status);
  const pid_t clean = fork();
  if (clean == 0) {
    execl("/proc/self/exe", argv[0], "again", (char*)nullptr);
    _exit(127);
  }
  waitpid(clean, &status, 0);
  Fact("executed_child", status);
  parent_for_nanoseconds<<<1, 32>>>(100000);
  CHECK(cudaDeviceSynchronize());
  Fact("kernels", 2);
  Fact("kernel_ns", 200000);
  return 0;
}
