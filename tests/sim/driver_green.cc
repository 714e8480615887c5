// SPDX-License-Identifier: Apache-2.0
//
// Green contexts: parts of a device's processors with streams of their own. Here they share nothing but the primary
// context's memory, events and faults: work in one is not slower for having fewer processors.
#include <algorithm>

#include "tests/sim/driver.h"

struct CUdevResourceDesc_st {
  unsigned processors;
};

namespace tbprof::sim {
namespace {

constexpr unsigned kFewest = 8;  // of compute capability 9.0, and its alignment

CUresult FindGreen(CUgreenCtx green) {
  SIM_TRY(Usable());
  if (!Valid(green, Magic::kGreen)) return CUDA_ERROR_INVALID_CONTEXT;
  return green->context->alive.load() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUdevResource Processors(unsigned count) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = count;
  resource.sm.minSmPartitionSize = resource.sm.smCoscheduledAlignment = kFewest;
  return resource;
}

}  // namespace

CUresult Driver::cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  SIM_TRY(Usable());
  if (device < 0 || static_cast<size_t>(device) >= engine().devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = Processors(engine().devices[static_cast<size_t>(device)]->description.processors);
  return CUDA_SUCCESS;
}

CUresult Driver::cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups, const CUdevResource* input,
                                             CUdevResource* remaining, unsigned int useFlags, unsigned int minCount) {
  SIM_TRY(Usable());
  if (nbGroups == nullptr || input == nullptr || minCount > input->sm.smCount) return CUDA_ERROR_INVALID_VALUE;
  if (input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const unsigned size = std::max((minCount + kFewest - 1) / kFewest * kFewest, kFewest);
  unsigned groups = input->sm.smCount / size;
  if (result != nullptr) groups = std::min(groups, *nbGroups);
  for (unsigned i = 0; result != nullptr && i < groups; ++i) result[i] = Processors(size);
  *nbGroups = groups;
  if (remaining != nullptr) *remaining = Processors(input->sm.smCount - groups * size);
  return CUDA_SUCCESS;
}

CUresult Driver::cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources,
                                           unsigned int nbResources) {
  SIM_TRY(Usable());
  if (phDesc == nullptr || resources == nullptr || nbResources == 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned processors = 0;
  for (unsigned i = 0; i < nbResources; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    processors += resources[i].sm.smCount;
  }
  *phDesc = new CUdevResourceDesc_st{processors};
  return CUDA_SUCCESS;
}

CUresult Driver::cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
  SIM_TRY(Usable());
  if (phCtx == nullptr || desc == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary = nullptr;
  SIM_TRY(cuDevicePrimaryCtxRetain(&primary, dev));
  auto* green = new CUgreenCtx_st{};
  green->magic = Magic::kGreen;
  green->processors = desc->processors;
  green->context = NewContext(primary->device, 0, false, green);
  *phCtx = green;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGreenCtxDestroy(CUgreenCtx hCtx) {
  SIM_TRY(FindGreen(hCtx));
  const int device = hCtx->context->device->ordinal;
  DestroyContext(hCtx->context);
  hCtx->magic = Magic::kDead;
  return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult Driver::cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  SIM_TRY(FindGreen(hCtx));
  if (pContext == nullptr) return CUDA_ERROR_INVALID_VALUE;
  hCtx->converted.store(true);
  *pContext = hCtx->context;
  return CUDA_SUCCESS;
}

CUresult Driver::cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
  SIM_TRY(FindGreen(greenCtx));
  if (phStream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *phStream = NewStream(greenCtx->context, flags, std::clamp(priority, -5, 0));
  return CUDA_SUCCESS;
}

}  // namespace tbprof::sim
