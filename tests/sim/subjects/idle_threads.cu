// SPDX-License-Identifier: Apache-2.0
//
// Threads that each launch a small kernel now and then, so that CUPTI has a nearly empty buffer of each.
//
//   idle_threads [THREADS] [ROUNDS]
//
// A round is 2 ms.
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "common.h"

__global__ void tiny_for_nanoseconds(long long duration) { WaitNs(duration); }

static long long NowNs() {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 16, rounds = argc > 2 ? atoi(argv[2]) : 1000;
  std::vector<std::thread> all;
  const long long begun = NowNs();
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([=] {
      for (int round = 0; round < rounds; ++round) {
        tiny_for_nanoseconds<<<1, 32>>>(1000);
        CHECK(cudaDeviceSynchronize());
        usleep(2000);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  printf("kernels=%d\ntook_ns=%lld\n", threads * rounds, NowNs() - begun);
  return 0;
}
