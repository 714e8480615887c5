// SPDX-License-Identifier: Apache-2.0
//
// Launches at a given rate and how long each took on the host; a library, so that one and the same code is measured
// bare, below a profiler of the process, and below one that Python starts (cost_worker.py). Each call returns 0, or
// the error that CUDA gave.
#include <stdint.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "../../sim/subjects/common.h"

#define RETURN_ERROR(call)                                                    \
  do {                                                                        \
    const cudaError_t return_result = (call);                                 \
    if (return_result != cudaSuccess) return static_cast<int>(return_result); \
  } while (0)

struct Rates {
  double p50_ns, p90_ns, p99_ns, mean_ns;  // of the call that launches
  double wall_ns;                          // of all, with the wait at the end
  double cpu_ns;                           // of this thread
};

namespace {

__global__ void tiny_for_nanoseconds(long long duration) { WaitNs(duration); }

int64_t Now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void Fill(std::vector<uint32_t>* took, Rates* out) {
  double sum = 0;
  for (const uint32_t one : *took) sum += one;
  std::sort(took->begin(), took->end());
  const size_t count = took->size();
  out->p50_ns = (*took)[count / 2];
  out->p90_ns = (*took)[count * 9 / 10];
  out->p99_ns = (*took)[count * 99 / 100];
  out->mean_ns = sum / static_cast<double>(count);
}

// `work` waits for what it launches, and gives 0 or CUDA's error.
template <typename Work>
int TimeEach(long long count, Rates* out, Work work) {
  std::vector<uint32_t> took(count);
  const int64_t start = Now(CLOCK_MONOTONIC), cpu = Now(CLOCK_THREAD_CPUTIME_ID);
  for (long long i = 0; i < count; ++i) {
    const int64_t before = Now(CLOCK_MONOTONIC);
    if (const int error = work()) return error;
    took[i] = static_cast<uint32_t>(Now(CLOCK_MONOTONIC) - before);
  }
  out->wall_ns = static_cast<double>(Now(CLOCK_MONOTONIC) - start);
  out->cpu_ns = static_cast<double>(Now(CLOCK_THREAD_CPUTIME_ID) - cpu);
  Fill(&took, out);
  return 0;
}

cudaStream_t Stream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
  }();
  return stream;
}

}  // namespace

// `per_second` 0: as fast as it goes.
extern "C" int rates_launch(long long per_second, long long count, Rates* out) {
  cudaStream_t const stream = Stream();
  std::vector<uint32_t> took(count);
  tiny_for_nanoseconds<<<1, 32, 0, stream>>>(0);
  RETURN_ERROR(cudaStreamSynchronize(stream));
  const int64_t start = Now(CLOCK_MONOTONIC), cpu = Now(CLOCK_THREAD_CPUTIME_ID);
  for (long long i = 0; i < count; ++i) {
    int64_t before = Now(CLOCK_MONOTONIC);
    if (per_second > 0) {
      const int64_t at = start + i * 1000000000LL / per_second;
      while (before < at) before = Now(CLOCK_MONOTONIC);
    }
    tiny_for_nanoseconds<<<1, 32, 0, stream>>>(0);
    took[i] = static_cast<uint32_t>(Now(CLOCK_MONOTONIC) - before);
  }
  RETURN_ERROR(cudaGetLastError());
  RETURN_ERROR(cudaStreamSynchronize(stream));
  out->wall_ns = static_cast<double>(Now(CLOCK_MONOTONIC) - start);
  out->cpu_ns = static_cast<double>(Now(CLOCK_THREAD_CPUTIME_ID) - cpu);
  Fill(&took, out);
  return 0;
}

// Replays of a graph of `nodes` kernels, each waited for: `p50_ns` and so on are of launch and wait together.
extern "C" int rates_graph(long long nodes, long long count, Rates* out) {
  static cudaGraphExec_t executable = nullptr;
  cudaStream_t const stream = Stream();
  if (executable == nullptr) {
    cudaGraph_t graph;
    RETURN_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (long long i = 0; i < nodes; ++i) tiny_for_nanoseconds<<<1, 32, 0, stream>>>(0);
    RETURN_ERROR(cudaStreamEndCapture(stream, &graph));
    RETURN_ERROR(cudaGraphInstantiate(&executable, graph, 0));
    RETURN_ERROR(cudaGraphDestroy(graph));
    RETURN_ERROR(cudaGraphLaunch(executable, stream));
    RETURN_ERROR(cudaStreamSynchronize(stream));
  }
  return TimeEach(count, out, [&] {
    RETURN_ERROR(cudaGraphLaunch(executable, stream));
    RETURN_ERROR(cudaStreamSynchronize(stream));
    return 0;
  });
}

// Training steps without a framework: a batch to the device, 200 kernels of 10 us, the loss back; `count` of them.
extern "C" int rates_steps(long long count, Rates* out) {
  constexpr size_t kBatch = 1 << 20;
  static char *device = nullptr, *host = nullptr;
  cudaStream_t const stream = Stream();
  if (device == nullptr) {
    RETURN_ERROR(cudaMalloc(&device, kBatch));
    RETURN_ERROR(cudaMallocHost(&host, kBatch));
  }
  return TimeEach(count, out, [&] {
    RETURN_ERROR(cudaMemcpyAsync(device, host, kBatch, cudaMemcpyHostToDevice, stream));
    for (int kernel = 0; kernel < 200; ++kernel) tiny_for_nanoseconds<<<1, 32, 0, stream>>>(10000);
    RETURN_ERROR(cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToHost, stream));
    RETURN_ERROR(cudaStreamSynchronize(stream));
    return 0;
  });
}
