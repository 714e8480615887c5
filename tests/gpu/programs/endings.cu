// SPDX-License-Identifier: Apache-2.0
//
// A training that ends in the middle: launches at an even pace, each waited for, says how many there were, and ends.
//
//   endings HOW [LAUNCHES] [KERNEL_NS] [PAUSE_US]   HOW: return, exit (_exit), term, kill, fault, unfinished (_exit
//   while
//                                                   the device is at work)
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../sim/subjects/common.h"

__global__ void work_for_nanoseconds(long long duration) { WaitNs(duration); }
// The simulator goes by the name.
__global__ void illegal_address() { *(volatile int*)8 = 1; }

static long long NowNs() {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "return";
  const long long launches = Argument(argc, argv, 2, 1000), ns = Argument(argc, argv, 3, 100000);
  const long long pause_us = Argument(argc, argv, 4, 900);
  CHECK(cudaFree(nullptr));
  // Loaded before the clock starts.
  work_for_nanoseconds<<<1, 32>>>(ns);
  CHECK(cudaDeviceSynchronize());
  const long long start = NowNs();
  for (long long i = 1; i < launches; ++i) {
    work_for_nanoseconds<<<1, 32>>>(ns);
    CHECK(cudaDeviceSynchronize());
    const struct timespec pause = {(time_t)(pause_us / 1000000), (long)(pause_us % 1000000 * 1000)};
    if (pause_us > 0) nanosleep(&pause, nullptr);
  }
  dprintf(1, "kernels=%lld\nelapsed_ns=%lld\n", launches, NowNs() - start);
  if (strcmp(how, "exit") == 0) _exit(7);
  if (strcmp(how, "term") == 0) raise(SIGTERM);
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "unfinished") == 0) {
    work_for_nanoseconds<<<1, 32>>>(2000000000);
    CHECK(cudaGetLastError());
    _exit(7);
  }
  if (strcmp(how, "fault") == 0) {
    illegal_address<<<1, 32>>>();
    const cudaError_t result = cudaDeviceSynchronize();
    dprintf(1, "fault=%d\n", (int)result);
    exit(9);
  }
  return 0;
}
