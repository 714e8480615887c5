// SPDX-License-Identifier: Apache-2.0
//
// nvtx [STEPS]: kernels inside ranges of NVTX, as programs annotate their steps: pushed and popped, started and ended,
// of a domain, with registered names. Without NVTX's header the same without ranges.
#include "common.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
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
  Fact("steps", steps);
  Fact("kernels", 2 * steps);
  return 0;
}
