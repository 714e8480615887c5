// SPDX-License-Identifier: Apache-2.0
//
// nvtx [STEPS [streams]]: kernels inside ranges of NVTX, as programs annotate their steps: pushed and popped, started
// and ended, of a domain, with registered names; `streams`: and on streams with names, of each device one.
// Without NVTX's header the same without ranges and names.
#include <cuda.h>

#include "common.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>
static void NameStreams(cudaStream_t first, cudaStream_t second, cudaStream_t third, int device) {
  char name[32];
  snprintf(name, sizeof(name), "copies of %d", device);
  nvtxNameCudaStreamA(first, name);
  nvtxNameCuStreamA(second, "by the driver's interface");
  nvtxNameCudaStreamW(third, L"na\u00efve");
  nvtxNameCudaStreamA(nullptr, "the default stream");
}
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t step_name;
static void Begin() {
  domain = nvtxDomainCreateA("subject");
  step_name = nvtxDomainRegisterStringA(domain, "step of the domain");
  nvtxNameOsThreadA(0, "main of the subject");
}
static nvtxRangeId_t BeginStep(int step) {
  char name[32];
  snprintf(name, sizeof(name), "step %d", step);
  nvtxRangePushA(name);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = step_name;
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxMarkA("mark");
  return nvtxRangeStartA("across");
}
static void EndStep(nvtxRangeId_t range) {
  nvtxRangeEnd(range);
  nvtxDomainRangePop(domain);
  nvtxRangePop();
}
#else
static void NameStreams(cudaStream_t, cudaStream_t, cudaStream_t, int) {}
static void Begin() {}
static int BeginStep(int) { return 0; }
static void EndStep(int) {}
#endif

__global__ void forward_of_step(long long duration) { WaitNs(duration); }
__global__ void backward_of_step(long long duration) { WaitNs(duration); }

int main(int argc, char** argv) {
  const long long steps = Argument(argc, argv, 1, 20);
  Begin();
  for (int step = 0; step < steps; ++step) {
    const auto range = BeginStep(step);
    forward_of_step<<<1, 32>>>(20000);
    backward_of_step<<<1, 32>>>(40000);
    CHECK(cudaDeviceSynchronize());
    EndStep(range);
  }
  long long kernels = 2 * steps;
  int devices = 0;
  if (argc > 2) CHECK(cudaGetDeviceCount(&devices));
  // All are made before one is named: the current device is not that of the streams.
  cudaStream_t streams[8][3];
  for (int device = 0; device < devices && device < 8; ++device) {
    CHECK(cudaSetDevice(device));
    for (cudaStream_t& stream : streams[device]) CHECK(cudaStreamCreate(&stream));
  }
  for (int device = 0; device < devices && device < 8; ++device) {
    NameStreams(streams[device][0], streams[device][1], streams[device][2], device);
  }
  for (int device = 0; device < devices && device < 8; ++device) {
    CHECK(cudaSetDevice(device));
    for (cudaStream_t stream : streams[device]) forward_of_step<<<1, 32, 0, stream>>>(20000);
    CHECK(cudaDeviceSynchronize());
    kernels += 3;
  }
  Fact("steps", steps);
  Fact("kernels", kernels);
  return 0;
}
