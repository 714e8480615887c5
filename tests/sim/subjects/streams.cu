// SPDX-License-Identifier: Apache-2.0
//
// Orders that streams, events and host functions promise, each checked by what the host sees.
#include <atomic>
#include <chrono>
#include <thread>

#include "common.h"

__global__ void work_for_nanoseconds(long long duration) { WaitNs(duration); }

static std::atomic<int> order{0};
static int function_at, callback_at;
static void CUDART_CB OnHost(void* data) { *(int*)data = ++order; }
static void CUDART_CB OnCallback(cudaStream_t, cudaError_t status, void* data) {
  if (status == cudaSuccess) *(int*)data = ++order;
}

static void Expect(bool right, const char* what) {
  if (right) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

// Expects that a query has found work of this length unfinished, unless the host was too slow: it may get no CPU
// between the launch and the query.
class Busy {
 public:
  explicit Busy(long long duration) : over_(Clock::now() + std::chrono::nanoseconds(duration)) {}
  void Expect(cudaError_t found, const char* what) const {
    if (Clock::now() < over_) ::Expect(found == cudaErrorNotReady, what);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point over_;  // at the earliest
};

int main() {
  cudaStream_t blocking, free_stream;
  CHECK(cudaStreamCreate(&blocking));
  CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
  cudaEvent_t begin, middle, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&middle));
  CHECK(cudaEventCreate(&end));

  // In one stream, one after the other; the events measure it.
  CHECK(cudaEventRecord(begin, free_stream));
  const Busy both(20000000 + 10000000);
  work_for_nanoseconds<<<1, 32, 0, free_stream>>>(20000000);
  CHECK(cudaEventRecord(middle, free_stream));
  work_for_nanoseconds<<<1, 32, 0, free_stream>>>(10000000);
  CHECK(cudaEventRecord(end, free_stream));
  both.Expect(cudaStreamQuery(free_stream), "busy stream");
  both.Expect(cudaEventQuery(end), "coming event");
  both.Expect(cudaGetLastError(), "not ready is remembered");
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaStreamQuery(free_stream));
  float first = 0, second = 0;
  CHECK(cudaEventElapsedTime(&first, begin, middle));
  CHECK(cudaEventElapsedTime(&second, middle, end));
  Expect(first >= 20.0f && second >= 10.0f && second < 10.1f, "elapsed time");

  // The legacy stream waits for blocking streams and they for it; a non-blocking stream waits for nobody.
  work_for_nanoseconds<<<1, 32, 0, blocking>>>(30000000);
  CHECK(cudaEventRecord(begin, blocking));
  work_for_nanoseconds<<<1, 32>>>(1000000);
  CHECK(cudaEventRecord(middle, 0));
  work_for_nanoseconds<<<1, 32, 0, blocking>>>(1000000);
  CHECK(cudaEventRecord(end, blocking));
  CHECK(cudaStreamQuery(free_stream));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaEventElapsedTime(&first, begin, middle));
  CHECK(cudaEventElapsedTime(&second, middle, end));
  Expect(first >= 1.0f && second >= 1.0f, "legacy stream");

  // Work behind a host function waits for it, in another stream too when an event says so.
  const Busy five(5000000);
  work_for_nanoseconds<<<1, 32, 0, free_stream>>>(5000000);
  CHECK(cudaLaunchHostFunc(free_stream, OnHost, &function_at));
  CHECK(cudaEventRecord(middle, free_stream));
  CHECK(cudaStreamWaitEvent(blocking, middle, 0));
  CHECK(cudaStreamAddCallback(blocking, OnCallback, &callback_at, 0));
  work_for_nanoseconds<<<1, 32, 0, blocking>>>(1000);
  five.Expect(cudaStreamQuery(blocking), "behind a host function");
  cudaGetLastError();
  CHECK(cudaStreamSynchronize(blocking));
  Expect(function_at == 1 && callback_at == 2, "order of host functions");

  // Each thread has a default stream of its own.
  std::thread other([] {
    work_for_nanoseconds<<<1, 32, 0, cudaStreamPerThread>>>(20000000);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  });
  CHECK(cudaStreamQuery(cudaStreamPerThread));
  other.join();
  CHECK(cudaDeviceSynchronize());
  Fact("kernels", 2 + 3 + 2 + 1);
  Fact("kernel_ns", 30000000 + 32000000 + 5001000 + 20000000);
  Fact("host_functions", order.load());
  return 0;
}
