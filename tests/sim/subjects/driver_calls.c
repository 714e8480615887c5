// SPDX-License-Identifier: Apache-2.0
//
// Calls of the driver interface that the runtime's programs here do not make: peer boxes, batches, physical memory by
// handles, launches on two devices at once and as CUDA 3 had them. Each copy is checked for its bytes.
//
//   driver_calls [ROUNDS]
//
// Linked to libcuda.so.1; also as a program whose default stream is the thread's own.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { kBytes = 4096, kPhysical = 2 << 20 };

static const char kImage[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry both_for_nanoseconds(.param .u64 d) { ret; }\n"
    ".visible .entry old_for_nanoseconds(.param .u64 d) { ret; }\n";

static unsigned char host[kBytes], back[kBytes];

static void Expect(CUdeviceptr memory, size_t bytes, int value, const char* what) {
  memset(back, 0, sizeof(back));
  MUST(cuMemcpyDtoH(back, memory, bytes));
  for (size_t i = 0; i < bytes; ++i) {
    if (back[i] == value) continue;
    fprintf(stderr, "wrong bytes: %s: %d at %zu\n", what, back[i], i);
    exit(1);
  }
}

static CUcontext contexts[2];
static CUstream streams[2];
static CUfunction both[2], old;
static CUdeviceptr memory[2];

// From the first device to the second.
static void PeerBoxes(void) {
  CUDA_MEMCPY3D_PEER box;
  memset(&box, 0, sizeof(box));
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = memory[0];
  box.dstDevice = memory[1];
  box.srcContext = contexts[0];
  box.dstContext = contexts[1];
  box.srcPitch = box.dstPitch = box.WidthInBytes = 64;
  box.srcHeight = box.dstHeight = box.Height = 4;
  box.Depth = 2;
  MUST(cuMemsetD8(memory[0], 3, kBytes));
  MUST(cuMemcpy3DPeer(&box));
  Expect(memory[1], 512, 3, "a box to a peer");
  MUST(cuMemsetD8(memory[0], 4, kBytes));
  MUST(cuStreamSynchronize(NULL));
  MUST(cuMemcpy3DPeerAsync(&box, streams[0]));
  MUST(cuStreamSynchronize(streams[0]));
  Expect(memory[1], 512, 4, "a box to a peer, later");
}

static void Find(const char* name, int version, void** function) {
  CUdriverProcAddressQueryResult status;
  const cuuint64_t flags =
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
      CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
#else
      CU_GET_PROC_ADDRESS_LEGACY_STREAM;
#endif
  MUST(cuGetProcAddress(name, function, version, flags, &status));
  if (status == CU_GET_PROC_ADDRESS_SUCCESS) return;
  fprintf(stderr, "no %s at %d\n", name, version);
  exit(1);
}

// Two parts each, of the two interfaces that there are.
static void Batches(void) {
  CUmemcpyAttributes attributes;
  CUDA_MEMCPY3D_BATCH_OP boxes[2];
  CUdeviceptr to[2] = {memory[0], memory[0] + 1024};
  CUdeviceptr from[2] = {(CUdeviceptr)host, (CUdeviceptr)host + 1024};
  size_t sizes[2] = {1024, 512}, index = 0, failed = 0;
  PFN_cuMemcpyBatchAsync_v12080 first;
  PFN_cuMemcpy3DBatchAsync_v12080 first_boxes;
  memset(&attributes, 0, sizeof(attributes));
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  memset(boxes, 0, sizeof(boxes));
  for (int i = 0; i < 2; ++i) {
    boxes[i].src.type = boxes[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    boxes[i].src.op.ptr.ptr = from[i];
    boxes[i].dst.op.ptr.ptr = to[i];
    boxes[i].extent.width = 32;
    boxes[i].extent.height = boxes[i].extent.depth = 2;
    boxes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  memset(host, 7, sizeof(host));
  MUST(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, streams[0]));
  MUST(cuStreamSynchronize(streams[0]));
  Expect(memory[0], 1536, 7, "a batch");
  memset(host, 8, sizeof(host));
  MUST(cuMemcpy3DBatchAsync(2, boxes, 0, streams[0]));
  MUST(cuStreamSynchronize(streams[0]));
  Expect(memory[0], 128, 8, "a batch of boxes");
  Expect(memory[0] + 1024, 128, 8, "a batch of boxes");

  memset(host, 9, sizeof(host));
  Find("cuMemcpyBatchAsync", 12080, (void**)&first);
  MUST(first(to, from, sizes, 2, &attributes, &index, 1, &failed, streams[0]));
  MUST(cuStreamSynchronize(streams[0]));
  Expect(memory[0], 1536, 9, "a batch of 12.8");
  memset(host, 10, sizeof(host));
  Find("cuMemcpy3DBatchAsync", 12080, (void**)&first_boxes);
  MUST(first_boxes(2, boxes, &failed, 0, streams[0]));
  MUST(cuStreamSynchronize(streams[0]));
  Expect(memory[0], 128, 10, "a batch of boxes of 12.8");
}

static void Launches(void) {
  unsigned long long duration = 20000;
  void* arguments[] = {&duration};
  CUDA_LAUNCH_PARAMS launches[2];
  memset(launches, 0, sizeof(launches));
  for (int i = 0; i < 2; ++i) {
    launches[i].function = both[i];
    launches[i].gridDimX = 4;
    launches[i].gridDimY = launches[i].gridDimZ = launches[i].blockDimY = launches[i].blockDimZ = 1;
    launches[i].blockDimX = 64;
    launches[i].hStream = streams[i];
    launches[i].kernelParams = arguments;
  }
  MUST(cuLaunchCooperativeKernelMultiDevice(launches, 2, 0));
  MUST(cuStreamSynchronize(streams[0]));
  MUST(cuStreamSynchronize(streams[1]));
  MUST(cuFuncSetBlockShape(old, 32, 2, 1));
  MUST(cuParamSetSize(old, sizeof(duration)));
  MUST(cuParamSetv(old, 0, &duration, sizeof(duration)));
  MUST(cuLaunch(old));
  MUST(cuLaunchGrid(old, 3, 2));
  MUST(cuLaunchGridAsync(old, 3, 2, streams[0]));
  MUST(cuCtxSynchronize());
}

// On a device that is not the current one, too; one handle is given back while its memory is mapped.
static CUmemGenericAllocationHandle Physical(int device, size_t bytes) {
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties;
  size_t granularity = 0;
  memset(&properties, 0, sizeof(properties));
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  MUST(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  if (bytes % granularity != 0) exit(1);
  MUST(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

static void Virtual(void) {
  CUdeviceptr base;
  CUmemAccessDesc access;
  const CUmemGenericAllocationHandle first = Physical(0, kPhysical), second = Physical(0, 2 * kPhysical),
                                     other = Physical(1, kPhysical);
  memset(&access, 0, sizeof(access));
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  MUST(cuMemAddressReserve(&base, 4 * kPhysical, 0, 0, 0));
  MUST(cuMemMap(base, kPhysical, 0, first, 0));
  MUST(cuMemMap(base + kPhysical, 2 * kPhysical, 0, second, 0));
  MUST(cuMemSetAccess(base, 3 * kPhysical, &access, 1));
  MUST(cuMemRelease(first));
  // Over the end of one and the begin of the other: two sets, as each is an allocation of its own here.
  MUST(cuMemsetD8(base + kPhysical - 2048, 0x2a, 2048));
  MUST(cuMemsetD8(base + kPhysical, 0x2a, 2048));
  Expect(base + kPhysical - 2048, 2048, 0x2a, "mapped memory");
  Expect(base + kPhysical, 2048, 0x2a, "mapped memory");
  MUST(cuMemUnmap(base, 3 * kPhysical));
  MUST(cuMemRelease(second));
  MUST(cuMemRelease(other));
  MUST(cuMemAddressFree(base, 4 * kPhysical));
}

static void Prefetch(void) {
  CUdeviceptr managed;
  CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  MUST(cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  MUST(cuMemPrefetchAsync(managed, kBytes, device, 0, streams[0]));
  MUST(cuStreamSynchronize(streams[0]));
  MUST(cuMemFree(managed));
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 3;
  MUST(cuInit(0));
  for (int i = 0; i < 2; ++i) {
    CUmodule module;
    MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
    MUST(cuCtxSetCurrent(contexts[i]));
    MUST(cuModuleLoadData(&module, kImage));
    MUST(cuModuleGetFunction(&both[i], module, "both_for_nanoseconds"));
    if (i == 0) MUST(cuModuleGetFunction(&old, module, "old_for_nanoseconds"));
    MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&memory[i], kBytes));
  }
  MUST(cuCtxSetCurrent(contexts[0]));
  MUST(cuCtxEnablePeerAccess(contexts[1], 0));
  for (int i = 0; i < rounds; ++i) {
    PeerBoxes();
    Batches();
    Launches();
    Virtual();
    Prefetch();
  }
  // To the end.
  Physical(1, kPhysical);
  printf("kernels=%d\nkernel_ns=%lld\npeer_copies=%d\nto_device=%d\nphysical_live=%d\n", 5 * rounds, rounds * 100000LL,
         2 * rounds, 4 * rounds, kPhysical);
  return 0;
}
