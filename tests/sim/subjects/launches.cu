// SPDX-License-Identifier: Apache-2.0
//
// Many launches from several threads, each on a stream of its own, how long a launch took on the host, and the memory
// of the process after them. The kernels ask for no time at all, so that the queue to the device does not fill.
//
//   launches [THREADS] [LAUNCHES] [KERNEL_NS]
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "common.h"

__global__ void tiny_for_nanoseconds(long long duration) { WaitNs(duration); }

static int64_t NowNs() {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

// Of /proc/self/status, KiB.
static long long Resident(const char* name) {
  FILE* file = fopen("/proc/self/status", "re");
  char line[256];
  long long kib = -1;
  while (file != nullptr && fgets(line, sizeof(line), file) != nullptr) {
    if (strncmp(line, name, strlen(name)) == 0) kib = atoll(line + strlen(name));
  }
  if (file != nullptr) fclose(file);
  return kib;
}

static void Launch(long long count, long long ns, std::vector<uint32_t>* took) {
  cudaStream_t stream;
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  tiny_for_nanoseconds<<<1, 32, 0, stream>>>(ns);
  CHECK(cudaStreamSynchronize(stream));
  for (long long i = 0; i < count; ++i) {
    const int64_t start = NowNs();
    tiny_for_nanoseconds<<<1, 32, 0, stream>>>(ns);
    (*took)[i] = (uint32_t)(NowNs() - start);
  }
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) {
  const long long threads = Argument(argc, argv, 1, 2);
  const long long count = Argument(argc, argv, 2, 10000);
  const long long ns = Argument(argc, argv, 3, 0);
  CHECK(cudaFree(nullptr));
  std::vector<std::vector<uint32_t>> took(threads, std::vector<uint32_t>(count));
  const int64_t start = NowNs();
  std::vector<std::thread> running;
  for (long long i = 0; i < threads; ++i) running.emplace_back(Launch, count, ns, &took[i]);
  for (std::thread& thread : running) thread.join();
  const int64_t all = NowNs() - start;
  const long long anonymous = Resident("RssAnon:"), shared = Resident("RssShmem:");
  std::vector<uint32_t> sorted;
  for (const auto& one : took) sorted.insert(sorted.end(), one.begin(), one.end());
  std::sort(sorted.begin(), sorted.end());
  Fact("threads", threads);
  Fact("kernels", threads * (count + 1));
  Fact("kernel_ns", threads * (count + 1) * ns);
  Fact("launch_p50_ns", sorted[sorted.size() / 2]);
  Fact("launch_p99_9_ns", sorted[sorted.size() * 999 / 1000]);
  Fact("launch_max_ns", sorted.back());
  Fact("launches_per_second", (long long)(1e9 * (double)sorted.size() / (double)all));
  Fact("rss_anonymous_kib", anonymous);
  Fact("rss_shared_kib", shared);
  return 0;
}
