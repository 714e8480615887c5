// SPDX-License-Identifier: Apache-2.0
//
// graph_ranges [LAUNCHES]: a graph captured in ranges of NVTX, as a model is, instantiated and launched in others; a
// second that is captured in no range; and a kernel without a graph. Without NVTX's header the same without ranges.
#include "common.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
static void Push(const char* name) { nvtxRangePushA(name); }
static void Pop() { nvtxRangePop(); }
#else
static void Push(const char*) {}
static void Pop() {}
#endif

__global__ void encode_for_nanoseconds(long long duration) { WaitNs(duration); }
__global__ void decode_for_nanoseconds(long long duration) { WaitNs(duration); }
__global__ void nowhere_for_nanoseconds(long long duration) { WaitNs(duration); }
__global__ void eager_for_nanoseconds(long long duration) { WaitNs(duration); }

int main(int argc, char** argv) {
  const long long launches = Argument(argc, argv, 1, 3);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t model, plain, copy;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Push("model");
  Push("encoder");
  encode_for_nanoseconds<<<1, 32, 0, stream>>>(20000);
  Pop();
  Push("decoder");
  decode_for_nanoseconds<<<1, 32, 0, stream>>>(20000);
  Pop();
  Pop();
  CHECK(cudaStreamEndCapture(stream, &model));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  nowhere_for_nanoseconds<<<1, 32, 0, stream>>>(20000);
  CHECK(cudaStreamEndCapture(stream, &plain));
  cudaGraphExec_t executable[3];
  Push("prepare");
  CHECK(cudaGraphClone(&copy, model));
  CHECK(cudaGraphInstantiate(&executable[0], model, 0));
  CHECK(cudaGraphInstantiate(&executable[1], plain, 0));
  CHECK(cudaGraphInstantiate(&executable[2], copy, 0));
  Pop();
  for (long long i = 0; i < launches; ++i) {
    Push("replay");
    for (cudaGraphExec_t graph : executable) CHECK(cudaGraphLaunch(graph, stream));
    Push("eager");
    eager_for_nanoseconds<<<1, 32, 0, stream>>>(20000);
    Pop();
    Pop();
  }
  CHECK(cudaStreamSynchronize(stream));
  for (cudaGraphExec_t graph : executable) CHECK(cudaGraphExecDestroy(graph));
  CHECK(cudaGraphDestroy(model));
  CHECK(cudaGraphDestroy(plain));
  CHECK(cudaGraphDestroy(copy));
  Fact("graph_launches", 3 * launches);
  Fact("kernels", 6 * launches);
  return 0;
}
