// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the runtime calls: each hands over to the driver's call of the same purpose.
#include "tests/sim/runtime.h"

#include <stdio.h>
#include <string.h>

namespace tbprof::sim {
namespace {

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

cudaError_t PrimaryContext(int device, CUcontext* out) {
  return ToRuntime(Api().cuDevicePrimaryCtxRetain(out, device));
}

cudaError_t Describe(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                     cudaMemcpyKind kind, CUDA_MEMCPY2D* out) {
  if (width > dpitch || width > spitch) return cudaErrorInvalidPitchValue;
  *out = {};
  const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  const CUmemorytype device = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
  out->srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : device;
  out->srcHost = src;
  out->srcDevice = Address(src);
  out->srcPitch = spitch;
  out->dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : device;
  out->dstHost = dst;
  out->dstDevice = Address(dst);
  out->dstPitch = dpitch;
  out->WidthInBytes = width;
  out->Height = height;
  return cudaSuccess;
}

cudaError_t EntryPoint(const char* symbol, void** function, unsigned version, unsigned long long flags,
                       cudaDriverEntryPointQueryResult* status) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // 0: what the program was compiled for, which is the body that was called.
  if (flags == 0 && runtime_thread().per_thread_default) flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const CUresult result = Api().cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, &found);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return ToRuntime(result);
}

// The runtime has a code of its own for dimensions that no device accepts.
cudaError_t Launched(const dim3& grid, const dim3& block, CUresult result) {
  const bool impossible = block.x * block.y * block.z > 1024 || block.x * block.y * block.z == 0 || block.z > 64 ||
                          grid.x * grid.y * grid.z == 0 || grid.y > 65535 || grid.z > 65535;
  return result == CUDA_ERROR_INVALID_VALUE && impossible ? cudaErrorInvalidConfiguration : ToRuntime(result);
}

}  // namespace

cudaError_t Runtime::cudaGetDeviceProperties(struct cudaDeviceProp* prop, int device) {
  const DriverApi& api = Api();
  if (prop == nullptr) return cudaErrorInvalidValue;
  *prop = {};
  SIM_RUNTIME_TRY(ToRuntime(api.cuDeviceGetName(prop->name, sizeof(prop->name), device)));
  api.cuDeviceGetUuid_v2(reinterpret_cast<CUuuid*>(&prop->uuid), device);
  api.cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
  const auto value = [&api, device](CUdevice_attribute attribute) {
    int number = 0;
    api.cuDeviceGetAttribute(&number, attribute, device);
    return number;
  };
  const auto size = [&value](CUdevice_attribute attribute) { return static_cast<size_t>(value(attribute)); };
  prop->sharedMemPerBlock = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->warpSize = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = size(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  prop->maxThreadsDim[0] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  prop->maxThreadsDim[1] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  prop->maxThreadsDim[2] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  prop->maxGridSize[0] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  prop->maxGridSize[1] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  prop->maxGridSize[2] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  prop->totalConstMem = size(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->major = value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  prop->minor = value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  prop->textureAlignment = size(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  prop->multiProcessorCount = value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  prop->canMapHostMemory = value(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  prop->concurrentKernels = value(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  prop->ECCEnabled = value(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  prop->pciBusID = value(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  prop->asyncEngineCount = value(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  prop->unifiedAddressing = value(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  prop->memoryBusWidth = value(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  prop->l2CacheSize = value(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  prop->maxThreadsPerMultiProcessor = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  prop->streamPrioritiesSupported = value(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  prop->sharedMemPerMultiprocessor = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  prop->regsPerMultiprocessor = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  prop->managedMemory = value(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  prop->concurrentManagedAccess = value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  prop->cooperativeLaunch = value(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  prop->sharedMemPerBlockOptin = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  prop->maxBlocksPerMultiProcessor = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  prop->reservedSharedMemPerBlock = size(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  prop->memoryPoolsSupported = value(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  prop->clusterLaunch = value(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  return cudaSuccess;
}

cudaError_t Runtime::cudaDeviceReset() {
  SIM_RUNTIME_TRY(Boot());
  const CUresult result = Api().cuDevicePrimaryCtxReset_v2(runtime_thread().device);
  ForgetDeviceState();
  return ToRuntime(result);
}

cudaError_t Runtime::cudaDeviceSynchronize() {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuCtxSynchronize());
}

cudaError_t Runtime::cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}

cudaError_t Runtime::cudaDeviceGetLimit(size_t* pValue, enum cudaLimit limit) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuCtxGetLimit(pValue, static_cast<CUlimit>(limit)));
}

cudaError_t Runtime::cudaDeviceGetCacheConfig(enum cudaFuncCache* pCacheConfig) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(pCacheConfig)));
}

cudaError_t Runtime::cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuCtxSetCacheConfig(static_cast<CUfunc_cache>(cacheConfig)));
}

cudaError_t Runtime::cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t Runtime::cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return ToRuntime(Api().cuDeviceGetByPCIBusId(device, pciBusId));
}

cudaError_t Runtime::cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return ToRuntime(Api().cuDeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t Runtime::cudaGetLastError() {
  const cudaError_t error = runtime_thread().last_error;
  runtime_thread().last_error = cudaSuccess;
  return error;
}

cudaError_t Runtime::cudaPeekAtLastError() { return runtime_thread().last_error; }

cudaError_t Runtime::cudaGetDeviceCount(int* count) { return ToRuntime(Api().cuDeviceGetCount(count)); }

cudaError_t Runtime::cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attr, int device) {
  return ToRuntime(Api().cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device));
}

cudaError_t Runtime::cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return ToRuntime(Api().cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t Runtime::cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return ToRuntime(Api().cuDeviceSetMemPool(device, memPool));
}

cudaError_t Runtime::cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return ToRuntime(Api().cuDeviceGetMemPool(memPool, device));
}

cudaError_t Runtime::cudaDeviceGetP2PAttribute(int* value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice) {
  return ToRuntime(
      Api().cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr), srcDevice, dstDevice));
}

cudaError_t Runtime::cudaChooseDevice(int* device, const struct cudaDeviceProp* prop) {
  if (device == nullptr || prop == nullptr) return cudaErrorInvalidValue;
  *device = 0;
  return cudaSuccess;
}

cudaError_t Runtime::cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  if (flags != 0) return cudaErrorInvalidValue;
  CUcontext context = nullptr;
  return ToRuntime(Api().cuDevicePrimaryCtxRetain(&context, device));
}

cudaError_t Runtime::cudaSetDevice(int device) {
  int count = 0;
  SIM_RUNTIME_TRY(ToRuntime(Api().cuDeviceGetCount(&count)));
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  // Since CUDA 12 this makes the primary context and makes it current.
  CUcontext context = nullptr;
  SIM_RUNTIME_TRY(ToRuntime(Api().cuDevicePrimaryCtxRetain(&context, device)));
  SIM_RUNTIME_TRY(ToRuntime(Api().cuCtxSetCurrent(context)));
  runtime_thread().device = device;
  return cudaSuccess;
}

cudaError_t Runtime::cudaGetDevice(int* device) {
  if (device == nullptr) return cudaErrorInvalidValue;
  SIM_RUNTIME_TRY(Boot());
  *device = runtime_thread().device;
  return cudaSuccess;
}

cudaError_t Runtime::cudaSetValidDevices(int* device_arr, int len) { return cudaErrorNotSupported; }

cudaError_t Runtime::cudaSetDeviceFlags(unsigned int flags) {
  return ToRuntime(Api().cuDevicePrimaryCtxSetFlags_v2(runtime_thread().device, flags));
}

cudaError_t Runtime::cudaGetDeviceFlags(unsigned int* flags) {
  int active = 0;
  return ToRuntime(Api().cuDevicePrimaryCtxGetState(runtime_thread().device, flags, &active));
}

cudaError_t Runtime::cudaStreamCreate(cudaStream_t* pStream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamCreate(pStream, CU_STREAM_DEFAULT));
}

cudaError_t Runtime::cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamCreate(pStream, flags));
}

cudaError_t Runtime::cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t Runtime::cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamGetPriority(hStream, priority));
}

cudaError_t Runtime::cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamGetFlags(hStream, flags));
}

cudaError_t Runtime::cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamGetId(hStream, streamId));
}

cudaError_t Runtime::cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamGetDevice(hStream, device));
}

cudaError_t Runtime::cudaCtxResetPersistingL2Cache() { return Ready(); }

cudaError_t Runtime::cudaStreamDestroy(cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamDestroy_v2(stream));
}

cudaError_t Runtime::cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamWaitEvent(stream, event, flags));
}

cudaError_t Runtime::cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* userData,
                                           unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  // The two callback types differ in the type of the status alone.
  return ToRuntime(Api().cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), userData, flags));
}

cudaError_t Runtime::cudaStreamSynchronize(cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamSynchronize(stream));
}

cudaError_t Runtime::cudaStreamQuery(cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamQuery(stream));
}

cudaError_t Runtime::cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode)));
}

cudaError_t Runtime::cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}

cudaError_t Runtime::cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamEndCapture(stream, pGraph));
}

cudaError_t Runtime::cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* pCaptureStatus) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(pCaptureStatus)));
}

cudaError_t Runtime::cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* captureStatus_out,
                                              unsigned long long* id_out, cudaGraph_t* graph_out,
                                              const cudaGraphNode_t** dependencies_out,
                                              const cudaGraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  SIM_RUNTIME_TRY(Ready());
  cuuint64_t id = 0;
  const CUresult result = Api().cuStreamGetCaptureInfo_v3(
      stream, reinterpret_cast<CUstreamCaptureStatus*>(captureStatus_out), &id, graph_out, dependencies_out,
      reinterpret_cast<const CUgraphEdgeData**>(edgeData_out), numDependencies_out);
  if (id_out != nullptr) *id_out = id;
  return ToRuntime(result);
}

cudaError_t Runtime::cudaEventCreate(cudaEvent_t* event) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t Runtime::cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventCreate(event, flags));
}

cudaError_t Runtime::cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventRecord(event, stream));
}

cudaError_t Runtime::cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t Runtime::cudaEventQuery(cudaEvent_t event) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventQuery(event));
}

cudaError_t Runtime::cudaEventSynchronize(cudaEvent_t event) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventSynchronize(event));
}

cudaError_t Runtime::cudaEventDestroy(cudaEvent_t event) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventDestroy_v2(event));
}

cudaError_t Runtime::cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuEventElapsedTime(ms, start, end));
}

cudaError_t Runtime::cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                                      cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  return Launched(
      gridDim, blockDim,
      Api().cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                           blockDim.y, blockDim.z, static_cast<unsigned>(sharedMem), stream, args, nullptr));
}

cudaError_t Runtime::cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  SIM_RUNTIME_TRY(Ready());
  if (config == nullptr) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  CUlaunchConfig converted{};
  converted.gridDimX = config->gridDim.x;
  converted.gridDimY = config->gridDim.y;
  converted.gridDimZ = config->gridDim.z;
  converted.blockDimX = config->blockDim.x;
  converted.blockDimY = config->blockDim.y;
  converted.blockDimZ = config->blockDim.z;
  converted.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  converted.hStream = config->stream;
  // driver_types.h: the same structure under two names.
  converted.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
  converted.numAttrs = config->numAttrs;
  return ToRuntime(Api().cuLaunchKernelEx(&converted, reinterpret_cast<CUfunction>(kernel), args, nullptr));
}

cudaError_t Runtime::cudaLaunchCooperativeKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                                 size_t sharedMem, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  return ToRuntime(Api().cuLaunchCooperativeKernel(reinterpret_cast<CUfunction>(kernel), gridDim.x, gridDim.y,
                                                   gridDim.z, blockDim.x, blockDim.y, blockDim.z,
                                                   static_cast<unsigned>(sharedMem), stream, args));
}

cudaError_t Runtime::cudaFuncSetCacheConfig(const void* func, enum cudaFuncCache cacheConfig) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  return ToRuntime(Api().cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(cacheConfig)));
}

cudaError_t Runtime::cudaFuncGetAttributes(struct cudaFuncAttributes* attr, const void* func) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  const auto value = [function](CUfunction_attribute attribute) {
    int number = 0;
    Api().cuFuncGetAttribute(&number, attribute, function);
    return number;
  };
  *attr = {};
  attr->sharedSizeBytes = static_cast<size_t>(value(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  attr->constSizeBytes = static_cast<size_t>(value(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  attr->localSizeBytes = static_cast<size_t>(value(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  attr->maxThreadsPerBlock = value(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  attr->numRegs = value(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attr->ptxVersion = value(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  attr->binaryVersion = value(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  attr->maxDynamicSharedSizeBytes = value(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return cudaSuccess;
}

cudaError_t Runtime::cudaFuncSetAttribute(const void* func, enum cudaFuncAttribute attr, int value) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  return ToRuntime(Api().cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attr), value));
}

cudaError_t Runtime::cudaFuncGetName(const char** name, const void* func) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  return ToRuntime(Api().cuFuncGetName(name, function));
}

cudaError_t Runtime::cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuLaunchHostFunc(stream, fn, userData));
}

cudaError_t Runtime::cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                                   size_t dynamicSMemSize) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  return ToRuntime(Api().cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, function, blockSize, dynamicSMemSize));
}

cudaError_t Runtime::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func,
                                                                            int blockSize, size_t dynamicSMemSize,
                                                                            unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  return ToRuntime(Api().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function, blockSize,
                                                                              dynamicSMemSize, flags));
}

cudaError_t Runtime::cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func, int numBlocks,
                                                               int blockSize) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(func, &kernel));
  auto function = reinterpret_cast<CUfunction>(kernel);
  return ToRuntime(Api().cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function, numBlocks, blockSize));
}

cudaError_t Runtime::cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(devPtr), size, flags));
}

cudaError_t Runtime::cudaMalloc(void** devPtr, size_t size) {
  SIM_RUNTIME_TRY(Ready());
  if (devPtr == nullptr) return cudaErrorInvalidValue;
  if (size == 0) {
    *devPtr = nullptr;
    return cudaSuccess;
  }
  return ToRuntime(Api().cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(devPtr), size));
}

cudaError_t Runtime::cudaMallocHost(void** ptr, size_t size) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemAllocHost_v2(ptr, size));
}

cudaError_t Runtime::cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr*>(devPtr), pitch, width, height, 4));
}

cudaError_t Runtime::cudaFree(void* devPtr) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemFree_v2(Address(devPtr)));
}

cudaError_t Runtime::cudaFreeHost(void* ptr) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemFreeHost(ptr));
}

cudaError_t Runtime::cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemHostAlloc(pHost, size, flags));
}

cudaError_t Runtime::cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemHostRegister_v2(ptr, size, flags));
}

cudaError_t Runtime::cudaHostUnregister(void* ptr) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemHostUnregister(ptr));
}

cudaError_t Runtime::cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(pDevice), pHost, flags));
}

cudaError_t Runtime::cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemHostGetFlags(pFlags, pHost));
}

cudaError_t Runtime::cudaMemGetInfo(size_t* free, size_t* total) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemGetInfo_v2(free, total));
}

cudaError_t Runtime::cudaMemcpy(void* dst, const void* src, size_t count, enum cudaMemcpyKind kind) {
  SIM_RUNTIME_TRY(Ready());
  const DriverApi& api = Api();
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return ToRuntime(api.cuMemcpyHtoD_v2(Address(dst), src, count));
    case cudaMemcpyDeviceToHost:
      return ToRuntime(api.cuMemcpyDtoH_v2(dst, Address(src), count));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(api.cuMemcpyDtoD_v2(Address(dst), Address(src), count));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return ToRuntime(api.cuMemcpy(Address(dst), Address(src), count));
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t Runtime::cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t count) {
  SIM_RUNTIME_TRY(Ready());
  CUcontext to = nullptr, from = nullptr;
  SIM_RUNTIME_TRY(PrimaryContext(dstDevice, &to));
  SIM_RUNTIME_TRY(PrimaryContext(srcDevice, &from));
  return ToRuntime(Api().cuMemcpyPeer(Address(dst), to, Address(src), from, count));
}

cudaError_t Runtime::cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                                  enum cudaMemcpyKind kind) {
  SIM_RUNTIME_TRY(Ready());
  CUDA_MEMCPY2D copy;
  SIM_RUNTIME_TRY(Describe(dst, dpitch, src, spitch, width, height, kind, &copy));
  return ToRuntime(Api().cuMemcpy2D_v2(&copy));
}

cudaError_t Runtime::cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count, size_t offset,
                                        enum cudaMemcpyKind kind) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  SIM_RUNTIME_TRY(FindVariable(symbol, &address, &bytes));
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpy(Pointer(address + offset), src, count, kind);
}

cudaError_t Runtime::cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count, size_t offset,
                                          enum cudaMemcpyKind kind) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  SIM_RUNTIME_TRY(FindVariable(symbol, &address, &bytes));
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpy(dst, Pointer(address + offset), count, kind);
}

cudaError_t Runtime::cudaMemcpyAsync(void* dst, const void* src, size_t count, enum cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  const DriverApi& api = Api();
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return ToRuntime(api.cuMemcpyHtoDAsync_v2(Address(dst), src, count, stream));
    case cudaMemcpyDeviceToHost:
      return ToRuntime(api.cuMemcpyDtoHAsync_v2(dst, Address(src), count, stream));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(api.cuMemcpyDtoDAsync_v2(Address(dst), Address(src), count, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return ToRuntime(api.cuMemcpyAsync(Address(dst), Address(src), count, stream));
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t Runtime::cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice, size_t count,
                                         cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  CUcontext to = nullptr, from = nullptr;
  SIM_RUNTIME_TRY(PrimaryContext(dstDevice, &to));
  SIM_RUNTIME_TRY(PrimaryContext(srcDevice, &from));
  return ToRuntime(Api().cuMemcpyPeerAsync(Address(dst), to, Address(src), from, count, stream));
}

cudaError_t Runtime::cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                       size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  CUDA_MEMCPY2D copy;
  SIM_RUNTIME_TRY(Describe(dst, dpitch, src, spitch, width, height, kind, &copy));
  return ToRuntime(Api().cuMemcpy2DAsync_v2(&copy, stream));
}

cudaError_t Runtime::cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count, size_t offset,
                                             enum cudaMemcpyKind kind, cudaStream_t stream) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  SIM_RUNTIME_TRY(FindVariable(symbol, &address, &bytes));
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpyAsync(Pointer(address + offset), src, count, kind, stream);
}

cudaError_t Runtime::cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count, size_t offset,
                                               enum cudaMemcpyKind kind, cudaStream_t stream) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  SIM_RUNTIME_TRY(FindVariable(symbol, &address, &bytes));
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpyAsync(dst, Pointer(address + offset), count, kind, stream);
}

cudaError_t Runtime::cudaMemset(void* devPtr, int value, size_t count) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemsetD8_v2(Address(devPtr), static_cast<unsigned char>(value), count));
}

cudaError_t Runtime::cudaMemset2D(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemsetD2D8_v2(Address(devPtr), pitch, static_cast<unsigned char>(value), width, height));
}

cudaError_t Runtime::cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemsetD8Async(Address(devPtr), static_cast<unsigned char>(value), count, stream));
}

cudaError_t Runtime::cudaMemset2DAsync(void* devPtr, size_t pitch, int value, size_t width, size_t height,
                                       cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(
      Api().cuMemsetD2D8Async(Address(devPtr), pitch, static_cast<unsigned char>(value), width, height, stream));
}

cudaError_t Runtime::cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  SIM_RUNTIME_TRY(FindVariable(symbol, &address, &bytes));
  *devPtr = Pointer(address);
  return cudaSuccess;
}

cudaError_t Runtime::cudaGetSymbolSize(size_t* size, const void* symbol) {
  CUdeviceptr address = 0;
  return FindVariable(symbol, &address, size);
}

cudaError_t Runtime::cudaMemPrefetchAsync(const void* devPtr, size_t count, struct cudaMemLocation location,
                                          unsigned int flags, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  CUmemLocation where{};
  where.type = static_cast<CUmemLocationType>(location.type);
  where.id = location.id;
  return ToRuntime(Api().cuMemPrefetchAsync_v2(Address(devPtr), count, where, flags, stream));
}

cudaError_t Runtime::cudaMemAdvise(const void* devPtr, size_t count, enum cudaMemoryAdvise advice,
                                   struct cudaMemLocation location) {
  SIM_RUNTIME_TRY(Ready());
  CUmemLocation where{};
  where.type = static_cast<CUmemLocationType>(location.type);
  where.id = location.id;
  return ToRuntime(Api().cuMemAdvise_v2(Address(devPtr), count, static_cast<CUmem_advise>(advice), where));
}

cudaError_t Runtime::cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(devPtr), size, hStream));
}

cudaError_t Runtime::cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemFreeAsync(Address(devPtr), hStream));
}

cudaError_t Runtime::cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t Runtime::cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void* value) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemPoolSetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value));
}

cudaError_t Runtime::cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void* value) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemPoolGetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value));
}

cudaError_t Runtime::cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc* descList,
                                          size_t count) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemPoolSetAccess(memPool, reinterpret_cast<const CUmemAccessDesc*>(descList), count));
}

cudaError_t Runtime::cudaMemPoolCreate(cudaMemPool_t* memPool, const struct cudaMemPoolProps* poolProps) {
  SIM_RUNTIME_TRY(Ready());
  if (poolProps == nullptr) return cudaErrorInvalidValue;
  CUmemPoolProps properties{};
  properties.allocType = static_cast<CUmemAllocationType>(poolProps->allocType);
  properties.location.type = static_cast<CUmemLocationType>(poolProps->location.type);
  properties.location.id = poolProps->location.id;
  properties.maxSize = poolProps->maxSize;
  return ToRuntime(Api().cuMemPoolCreate(memPool, &properties));
}

cudaError_t Runtime::cudaMemPoolDestroy(cudaMemPool_t memPool) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemPoolDestroy(memPool));
}

cudaError_t Runtime::cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(ptr), size, memPool, stream));
}

cudaError_t Runtime::cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* ptr) {
  SIM_RUNTIME_TRY(Ready());
  const DriverApi& api = Api();
  *attributes = {};
  unsigned type = 0;
  int device = 0;
  bool managed = false;
  const CUdeviceptr address = Address(ptr);
  if (api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(ptr);
    return cudaSuccess;
  }
  api.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  api.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  attributes->device = device;
  attributes->devicePointer = const_cast<void*>(ptr);
  attributes->type = managed                        ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                    : cudaMemoryTypeHost;
  if (attributes->type != cudaMemoryTypeDevice) attributes->hostPointer = const_cast<void*>(ptr);
  return cudaSuccess;
}

cudaError_t Runtime::cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return ToRuntime(Api().cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

cudaError_t Runtime::cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  CUcontext peer = nullptr;
  SIM_RUNTIME_TRY(PrimaryContext(peerDevice, &peer));
  return ToRuntime(Api().cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t Runtime::cudaDeviceDisablePeerAccess(int peerDevice) {
  SIM_RUNTIME_TRY(Ready());
  CUcontext peer = nullptr;
  SIM_RUNTIME_TRY(PrimaryContext(peerDevice, &peer));
  return ToRuntime(Api().cuCtxDisablePeerAccess(peer));
}

cudaError_t Runtime::cudaDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return cudaErrorInvalidValue;
  *driverVersion = 0;
  LoadDriver();
  // Zero without a driver, and no error.
  return ToolsTable() == nullptr ? cudaSuccess : ToRuntime(Api().cuDriverGetVersion(driverVersion));
}

cudaError_t Runtime::cudaRuntimeGetVersion(int* runtimeVersion) {
  if (runtimeVersion == nullptr) return cudaErrorInvalidValue;
  *runtimeVersion = kLibraryVersion;
  return cudaSuccess;
}

cudaError_t Runtime::cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return ToRuntime(Api().cuGraphCreate(pGraph, flags));
}

cudaError_t Runtime::cudaGraphAddKernelNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                            const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                            const struct cudaKernelNodeParams* pNodeParams) {
  SIM_RUNTIME_TRY(Ready());
  if (pNodeParams == nullptr) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(pNodeParams->func, &kernel));
  CUDA_KERNEL_NODE_PARAMS node{};
  node.kern = kernel;
  node.gridDimX = pNodeParams->gridDim.x;
  node.gridDimY = pNodeParams->gridDim.y;
  node.gridDimZ = pNodeParams->gridDim.z;
  node.blockDimX = pNodeParams->blockDim.x;
  node.blockDimY = pNodeParams->blockDim.y;
  node.blockDimZ = pNodeParams->blockDim.z;
  node.sharedMemBytes = pNodeParams->sharedMemBytes;
  node.kernelParams = pNodeParams->kernelParams;
  node.extra = pNodeParams->extra;
  return ToRuntime(Api().cuGraphAddKernelNode_v2(pGraphNode, graph, pDependencies, numDependencies, &node));
}

cudaError_t Runtime::cudaGraphAddMemcpyNode1D(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t* pDependencies, size_t numDependencies, void* dst,
                                              const void* src, size_t count, enum cudaMemcpyKind kind) {
  SIM_RUNTIME_TRY(Ready());
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  copy.dstMemoryType =
      kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  copy.srcHost = src;
  copy.srcDevice = Address(src);
  copy.dstHost = dst;
  copy.dstDevice = Address(dst);
  copy.WidthInBytes = count;
  copy.Height = copy.Depth = 1;
  return ToRuntime(Api().cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies, &copy, nullptr));
}

cudaError_t Runtime::cudaGraphAddMemsetNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                            const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                            const struct cudaMemsetParams* pMemsetParams) {
  SIM_RUNTIME_TRY(Ready());
  if (pMemsetParams == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = Address(pMemsetParams->dst);
  set.pitch = pMemsetParams->pitch;
  set.value = pMemsetParams->value;
  set.elementSize = pMemsetParams->elementSize;
  set.width = pMemsetParams->width;
  set.height = pMemsetParams->height;
  return ToRuntime(Api().cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies, &set, nullptr));
}

cudaError_t Runtime::cudaGraphAddHostNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                          const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                          const struct cudaHostNodeParams* pNodeParams) {
  SIM_RUNTIME_TRY(Ready());
  if (pNodeParams == nullptr) return cudaErrorInvalidValue;
  CUDA_HOST_NODE_PARAMS node{};
  node.fn = pNodeParams->fn;
  node.userData = pNodeParams->userData;
  return ToRuntime(Api().cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies, &node));
}

cudaError_t Runtime::cudaGraphAddEmptyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t* pDependencies, size_t numDependencies) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t Runtime::cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                              const cudaGraphEdgeData* edgeData, size_t numDependencies) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphAddDependencies_v2(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edgeData),
                                                   numDependencies));
}

cudaError_t Runtime::cudaGraphClone(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphClone(pGraphClone, originalGraph));
}

cudaError_t Runtime::cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType* pType) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(pType)));
}

cudaError_t Runtime::cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphGetNodes(graph, nodes, numNodes));
}

cudaError_t Runtime::cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* pRootNodes, size_t* pNumRootNodes) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}

cudaError_t Runtime::cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t Runtime::cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                                   unsigned long long flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t Runtime::cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                         cudaGraphExecUpdateResultInfo* resultInfo) {
  SIM_RUNTIME_TRY(Ready());
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = Api().cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  if (resultInfo != nullptr) {
    *resultInfo = {};
    resultInfo->result = static_cast<cudaGraphExecUpdateResult>(info.result);
  }
  return ToRuntime(result);
}

cudaError_t Runtime::cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphUpload(graphExec, stream));
}

cudaError_t Runtime::cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphLaunch(graphExec, stream));
}

cudaError_t Runtime::cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphExecDestroy(graphExec));
}

cudaError_t Runtime::cudaGraphDestroy(cudaGraph_t graph) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphDestroy(graph));
}

cudaError_t Runtime::cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t Runtime::cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult* driverStatus) {
  return EntryPoint(symbol, funcPtr, kLibraryVersion, flags, driverStatus);
}

cudaError_t Runtime::cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr, unsigned int cudaVersion,
                                                      unsigned long long flags,
                                                      enum cudaDriverEntryPointQueryResult* driverStatus) {
  return EntryPoint(symbol, funcPtr, cudaVersion, flags, driverStatus);
}

cudaError_t Runtime::cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(symbolPtr, &kernel));
  *functionPtr = reinterpret_cast<CUfunction>(kernel);
  return cudaSuccess;
}

cudaError_t Runtime::cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  SIM_RUNTIME_TRY(Ready());
  CUkernel kernel = nullptr;
  SIM_RUNTIME_TRY(FindKernel(entryFuncAddr, &kernel));
  *kernelPtr = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}

cudaError_t Runtime::cudaProfilerStart() {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuProfilerStart());
}

cudaError_t Runtime::cudaProfilerStop() {
  SIM_RUNTIME_TRY(Ready());
  return ToRuntime(Api().cuProfilerStop());
}

}  // namespace tbprof::sim
