// SPDX-License-Identifier: Apache-2.0
//
// A training loop: each step copies a batch to the device, runs forward, backward and optimizer kernels on two streams,
// copies the loss back and waits for it. The last argument asks for the steps to be one graph each, or to be told at
// once: `KERNELS NANOSECONDS`, how many are over and when that was (CLOCK_MONOTONIC). With `beside`, they are told, and
// another thread makes calls that start no work.
//
//   train [STEPS] [KERNEL_NS] [graph|told|beside]
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "common.h"

__global__ void forward_for_nanoseconds(long long duration, const float* batch, float* activations) {
  WaitNs(duration);
  activations[threadIdx.x] = batch[threadIdx.x];
}
__global__ void backward_for_nanoseconds(long long duration, const float* activations, float* gradients) {
  WaitNs(duration);
  gradients[threadIdx.x] = activations[threadIdx.x];
}
__global__ void optimizer_for_nanoseconds(long long duration, float* weights, const float* gradients) {
  WaitNs(duration);
  weights[threadIdx.x] -= gradients[threadIdx.x];
}

static constexpr size_t kBatch = 64 * 1024;
static long long kernels, kernel_ns, copies_to, copies_from, bytes_to, bytes_from, sets, graph_launches;

struct Training {
  cudaStream_t compute, transfer;
  cudaEvent_t batch_there, step_done;
  float *host_batch, *host_loss, *batch, *activations, *gradients, *weights;
};

static void Enqueue(const Training& t, long long ns) {
  CHECK(cudaMemcpyAsync(t.batch, t.host_batch, kBatch, cudaMemcpyHostToDevice, t.transfer));
  CHECK(cudaEventRecord(t.batch_there, t.transfer));
  CHECK(cudaStreamWaitEvent(t.compute, t.batch_there, 0));
  forward_for_nanoseconds<<<128, 256, 0, t.compute>>>(ns, t.batch, t.activations);
  CHECK(cudaMemsetAsync(t.gradients, 0, kBatch, t.compute));
  backward_for_nanoseconds<<<128, 256, 0, t.compute>>>(2 * ns, t.activations, t.gradients);
  optimizer_for_nanoseconds<<<64, 128, 0, t.compute>>>(ns / 2, t.weights, t.gradients);
  CHECK(cudaMemcpyAsync(t.host_loss, t.weights, sizeof(float), cudaMemcpyDeviceToHost, t.compute));
}

int main(int argc, char** argv) {
  const long long steps = Argument(argc, argv, 1, 10);
  const long long ns = Argument(argc, argv, 2, 200000);
  const bool graph = argc > 3 && strcmp(argv[3], "graph") == 0;
  const bool beside = argc > 3 && strcmp(argv[3], "beside") == 0;
  const bool told = beside || (argc > 3 && strcmp(argv[3], "told") == 0);
  Training t;
  CHECK(cudaStreamCreateWithFlags(&t.compute, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&t.transfer, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&t.batch_there, cudaEventDisableTiming));
  CHECK(cudaEventCreate(&t.step_done));
  CHECK(cudaMallocHost(&t.host_batch, kBatch));
  CHECK(cudaMallocHost(&t.host_loss, sizeof(float)));
  CHECK(cudaMalloc(&t.batch, kBatch));
  CHECK(cudaMalloc(&t.activations, kBatch));
  CHECK(cudaMalloc(&t.gradients, kBatch));
  CHECK(cudaMalloc(&t.weights, kBatch));
  std::vector<float> weights(kBatch / sizeof(float), 1.5f);
  CHECK(cudaMemcpy(t.weights, weights.data(), kBatch, cudaMemcpyHostToDevice));
  ++copies_to;
  bytes_to += kBatch;

  cudaGraph_t captured = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (graph) {
    // The transfer stream is drawn into the capture by an event of the compute stream.
    CHECK(cudaStreamBeginCapture(t.compute, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventRecord(t.step_done, t.compute));
    CHECK(cudaStreamWaitEvent(t.transfer, t.step_done, 0));
    Enqueue(t, ns);
    CHECK(cudaStreamEndCapture(t.compute, &captured));
    CHECK(cudaGraphInstantiate(&executable, captured, 0));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(captured, nullptr, &nodes));
    Fact("graph_nodes", (long long)nodes);
  }
  if (beside) {
    // Until the end of the process.
    std::thread([] {
      for (;; usleep(1000)) {
        int version = 0;
        CHECK(cudaRuntimeGetVersion(&version));
      }
    }).detach();
  }
  for (long long step = 0; step < steps; ++step) {
    if (graph) {
      CHECK(cudaGraphLaunch(executable, t.compute));
      ++graph_launches;
    } else {
      Enqueue(t, ns);
      CHECK(cudaEventRecord(t.step_done, t.compute));
    }
    CHECK(cudaGetLastError());
    kernels += 3;
    kernel_ns += ns + 2 * ns + ns / 2;
    ++copies_to;
    bytes_to += kBatch;
    ++copies_from;
    bytes_from += sizeof(float);
    ++sets;
    CHECK(cudaStreamSynchronize(t.compute));
    if (told) {
      struct timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      dprintf(1, "%lld %lld\n", kernels, now.tv_sec * 1000000000LL + now.tv_nsec);
    }
  }
  CHECK(cudaDeviceSynchronize());
  Fact("steps", steps);
  Fact("kernels", kernels);
  Fact("kernel_ns", kernel_ns);
  Fact("copies_to_device", copies_to);
  Fact("bytes_to_device", bytes_to);
  Fact("copies_from_device", copies_from);
  Fact("bytes_from_device", bytes_from);
  Fact("sets", sets);
  Fact("graph_launches", graph_launches);
  printf("loss=%.3f\n", *t.host_loss);
  if (graph) {
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(captured));
  }
  CHECK(cudaFree(t.batch));
  CHECK(cudaFree(t.activations));
  CHECK(cudaFree(t.gradients));
  CHECK(cudaFree(t.weights));
  CHECK(cudaFreeHost(t.host_batch));
  CHECK(cudaFreeHost(t.host_loss));
  CHECK(cudaEventDestroy(t.batch_there));
  CHECK(cudaEventDestroy(t.step_done));
  CHECK(cudaStreamDestroy(t.compute));
  CHECK(cudaStreamDestroy(t.transfer));
  return 0;
}
