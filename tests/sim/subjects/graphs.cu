// SPDX-License-Identifier: Apache-2.0
//
// A graph made node by node: two kernels side by side behind a set and before a copy; launched, updated, launched
// again. With an argument other than 0 it also holds a host function.
//
//   graphs [LAUNCHES] [HOST_FUNCTION]
#include "common.h"

__global__ void left_for_nanoseconds(long long duration, int* out) { WaitNs(duration); }
__global__ void right_for_nanoseconds(long long duration, int* out) { WaitNs(duration); }

static int calls;
static void CUDART_CB OnHost(void* data) { ++*(int*)data; }

static cudaGraph_t Make(long long ns, int* device, int* host, bool host_function) {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams set = {};
  set.dst = device;
  set.value = 7;
  set.elementSize = 4;
  set.width = 256;
  set.height = 1;
  cudaGraphNode_t first, left, right, last, function;
  CHECK(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &set));
  void* arguments[] = {&ns, &device};
  cudaKernelNodeParams kernel = {};
  kernel.gridDim = dim3(4);
  kernel.blockDim = dim3(64);
  kernel.kernelParams = arguments;
  kernel.func = (void*)left_for_nanoseconds;
  CHECK(cudaGraphAddKernelNode(&left, graph, &first, 1, &kernel));
  kernel.func = (void*)right_for_nanoseconds;
  CHECK(cudaGraphAddKernelNode(&right, graph, &first, 1, &kernel));
  const cudaGraphNode_t both[] = {left, right};
  CHECK(cudaGraphAddMemcpyNode1D(&last, graph, both, 2, host, device, 256 * sizeof(int), cudaMemcpyDeviceToHost));
  if (host_function) {
    cudaHostNodeParams parameters = {OnHost, &calls};
    CHECK(cudaGraphAddHostNode(&function, graph, &last, 1, &parameters));
  }
  return graph;
}

int main(int argc, char** argv) {
  const long long launches = Argument(argc, argv, 1, 5);
  const bool host_function = Argument(argc, argv, 2, 0) != 0;
  int *device, *host;
  CHECK(cudaMalloc(&device, 256 * sizeof(int)));
  CHECK(cudaMallocHost(&host, 256 * sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph = Make(50000, device, host, host_function), slower = Make(80000, device, host, host_function);
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (long long i = 0; i < launches; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(executable, slower, &info));
  for (long long i = 0; i < launches; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  if (host[255] != 7) return 1;
  if (host_function && calls != 2 * launches) return 1;
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(slower));
  Fact("nodes", (long long)nodes);
  Fact("graph_launches", 2 * launches);
  Fact("kernels", 4 * launches);
  Fact("kernel_ns", launches * 2 * (50000 + 80000));
  Fact("copies_from_device", 2 * launches);
  Fact("sets", 2 * launches);
  Fact("host_calls", calls);
  return 0;
}
