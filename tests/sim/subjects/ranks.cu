// SPDX-License-Identifier: Apache-2.0
//
// One process for each GPU, forked before CUDA is used.
//
//   ranks [PROCESSES] [STEPS]
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

__global__ void step_for_nanoseconds(long long duration) { WaitNs(duration); }

static int Run(int rank, long long steps) {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  if (rank >= devices) {
    fprintf(stderr, "rank %d of %d devices\n", rank, devices);
    return 1;
  }
  CHECK(cudaSetDevice(rank));
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, rank));
  for (long long step = 0; step < steps; ++step) {
    step_for_nanoseconds<<<8, 128>>>(100000);
    CHECK(cudaDeviceSynchronize());
  }
  printf("rank=%d device=%d uuid_end=%d kernels=%lld\n", rank, rank, properties.uuid.bytes[15], steps);
  fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  const long long processes = Argument(argc, argv, 1, 2), steps = Argument(argc, argv, 2, 5);
  for (int rank = 0; rank < processes; ++rank) {
    char text[16];
    snprintf(text, sizeof(text), "%d", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    if (fork() == 0) exit(Run(rank, steps));
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed += status != 0;
  Fact("failed", failed);
  return failed != 0;
}
