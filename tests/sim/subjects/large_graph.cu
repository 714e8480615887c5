// SPDX-License-Identifier: Apache-2.0
//
// A graph of many kernels in a row, recorded from a stream and replayed.
//
//   large_graph [NODES] [LAUNCHES] [KERNEL_NS] [global]   global: as PyTorch captures, while another stream is at work
//   large_graph [NODES] 0 [KERNEL_NS] until FILE          launches every 10 ms until there is FILE
#include <string.h>
#include <unistd.h>

#include "common.h"

__global__ void node_for_nanoseconds(long long duration) { WaitNs(duration); }

int main(int argc, char** argv) {
  const long long nodes = Argument(argc, argv, 1, 1000);
  long long launches = Argument(argc, argv, 2, 5);
  const long long ns = Argument(argc, argv, 3, 100);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  const bool global = argc > 4 && strcmp(argv[4], "global") == 0;
  cudaStream_t other;
  if (global) {
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    node_for_nanoseconds<<<1, 32, 0, other>>>(100000000);
    // Whoever looks at that one now and then does so during the capture.
    usleep(250000);
    node_for_nanoseconds<<<1, 32, 0, other>>>(300000000);
  }
  CHECK(cudaStreamBeginCapture(stream, global ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeThreadLocal));
  for (long long i = 0; i < nodes; ++i) node_for_nanoseconds<<<1, 32, 0, stream>>>(ns);
  if (global) usleep(400000);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (long long i = 0; i < launches; ++i) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  if (argc > 5 && strcmp(argv[4], "until") == 0) {
    for (; access(argv[5], F_OK) != 0; ++launches) {
      CHECK(cudaGraphLaunch(executable, stream));
      CHECK(cudaStreamSynchronize(stream));
      usleep(10000);
    }
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  Fact("nodes", nodes);
  Fact("graph_launches", launches);
  Fact("kernels", nodes * launches);
  Fact("kernel_ns", nodes * launches * ns);
  return 0;
}
