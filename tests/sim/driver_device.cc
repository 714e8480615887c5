// SPDX-License-Identifier: Apache-2.0
//
// Driver calls on devices and contexts.
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "tests/sim/driver.h"
#include "tests/sim/modes.h"

namespace tbprof::sim {
namespace {

CUresult FindDevice(CUdevice ordinal, Device** out) {
  SIM_TRY(Usable());
  Engine& e = engine();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= e.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  *out = e.devices[static_cast<size_t>(ordinal)];
  return CUDA_SUCCESS;
}

// What an H200 answers; 0 for what it lacks.
int Attribute(const Device& device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return static_cast<int>(device.description.clock_khz);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return static_cast<int>(device.description.l2_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(device.description.processors);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return static_cast<int>(device.description.major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return static_cast<int>(device.description.minor);
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return 0x19 + device.physical * 0x10;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      return 1;
    default:
      return 0;
  }
}

// "A green context can be current to only one thread at a time": what the second one gets is not documented.
CUresult EnterGreen(CUcontext context) {
  if (context->green == nullptr) return CUDA_SUCCESS;
  if (!context->green->converted.load()) return CUDA_ERROR_INVALID_CONTEXT;
  const int self = static_cast<int>(syscall(SYS_gettid));
  int thread = 0;
  if (!context->green_thread.compare_exchange_strong(thread, self) && thread != self) {
    return CUDA_ERROR_CONTEXT_ALREADY_IN_USE;
  }
  context->green_entries.fetch_add(1);
  return CUDA_SUCCESS;
}
void LeaveGreen(CUcontext context) {
  if (context == nullptr || context->green == nullptr) return;
  if (context->green_entries.fetch_sub(1) == 1) context->green_thread.store(0);
}

CUresult PushOrReplace(CUcontext context, bool push) {
  ThreadState& state = thread_state();
  const bool grows = push || state.depth == 0;
  if (grows && state.depth == sizeof(state.stack) / sizeof(*state.stack)) return CUDA_ERROR_OUT_OF_MEMORY;
  SIM_TRY(EnterGreen(context));
  if (grows) {
    ++state.depth;
  } else {
    LeaveGreen(state.stack[state.depth - 1]);
  }
  state.stack[state.depth - 1] = context;
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM",
     "OS call failed or operation not supported on this OS"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
     "cannot set while device is active in this process"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* FindError(CUresult code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

CUresult Driver::cuInit(unsigned int Flags) { return Flags != 0 ? CUDA_ERROR_INVALID_VALUE : Init(); }

CUresult Driver::cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = DriverVersion();
  return CUDA_SUCCESS;
}

CUresult Driver::cuGetErrorString(CUresult error, const char** pStr) {
  const ErrorText* found = FindError(error);
  *pStr = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Driver::cuGetErrorName(CUresult error, const char** pStr) {
  const ErrorText* found = FindError(error);
  *pStr = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// ---- devices

CUresult Driver::cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found = nullptr;
  SIM_TRY(FindDevice(ordinal, &found));
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetCount(int* count) {
  SIM_TRY(Usable());
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(engine().devices.size());
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetName(char* name, int len, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, static_cast<size_t>(len), "%s", device->description.name);
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  *uuid = device->description.uuid;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  *bytes = device->description.memory_bytes;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (pi == nullptr || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *pi = Attribute(*device, attrib);
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetLuid(char*, unsigned int*, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }  // Windows alone

CUresult Driver::cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  *pool_out = device->default_pool;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  *pool = device->pool;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (!Valid(pool, Magic::kPool) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  device->pool = pool;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  *major = static_cast<int>(device->description.major);
  *minor = static_cast<int>(device->description.minor);
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (pciBusId == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(pciBusId, static_cast<size_t>(len), "0000:%02X:00.0",
           static_cast<unsigned>(Attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)));
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  SIM_TRY(Usable());
  for (const Device* device : engine().devices) {
    char id[32];
    SIM_TRY(cuDeviceGetPCIBusId(id, sizeof(id), device->ordinal));
    if (strcasecmp(id, pciBusId) == 0) {
      *dev = device->ordinal;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult Driver::cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  Device *device = nullptr, *peer = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  SIM_TRY(FindDevice(peerDev, &peer));
  *canAccessPeer = device != peer;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                         CUdevice dstDevice) {
  Device *device = nullptr, *peer = nullptr;
  SIM_TRY(FindDevice(srcDevice, &device));
  SIM_TRY(FindDevice(dstDevice, &peer));
  if (device == peer) return CUDA_ERROR_INVALID_DEVICE;
  *value = attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
  return CUDA_SUCCESS;
}

// ---- primary contexts

CUresult Driver::cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  static Lock creation;
  Guard guard(creation);
  if (device->primary == nullptr || !device->primary->alive.load()) {
    device->primary = NewContext(device, device->primary_flags, true);
    device->primary_references = 0;
  }
  ++device->primary_references;
  *pctx = device->primary;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (device->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_references == 0) DestroyContext(device->primary);
  return CUDA_SUCCESS;
}

CUresult Driver::cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  device->primary_flags = flags;
  return CUDA_SUCCESS;
}

CUresult Driver::cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (flags != nullptr) *flags = device->primary_flags;
  if (active != nullptr) *active = device->primary != nullptr && device->primary->alive.load();
  return CUDA_SUCCESS;
}

CUresult Driver::cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (device->primary != nullptr) DestroyContext(device->primary);
  device->primary_references = 0;
  return CUDA_SUCCESS;
}

// ---- contexts

CUresult Driver::cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  Device* device = nullptr;
  SIM_TRY(FindDevice(dev, &device));
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUcontext context = NewContext(device, flags, false);
  SIM_TRY(PushOrReplace(context, true));
  *pctx = context;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                                CUdevice dev) {
  if (numParams != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult Driver::cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
  if (ctxCreateParams != nullptr && (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult Driver::cuCtxDestroy_v2(CUcontext ctx) {
  SIM_TRY(Usable());
  if (!Valid(ctx, Magic::kContext) || !ctx->alive.load() || ctx->primary || ctx->green != nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  DestroyContext(ctx);
  ThreadState& state = thread_state();
  if (state.depth > 0 && state.stack[state.depth - 1] == ctx) --state.depth;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxPushCurrent_v2(CUcontext ctx) {
  SIM_TRY(Usable());
  if (!Valid(ctx, Magic::kContext)) return CUDA_ERROR_INVALID_CONTEXT;
  return PushOrReplace(ctx, true);
}

CUresult Driver::cuCtxPopCurrent_v2(CUcontext* pctx) {
  SIM_TRY(Usable());
  ThreadState& state = thread_state();
  if (state.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --state.depth;
  LeaveGreen(state.stack[state.depth]);
  if (pctx != nullptr) *pctx = state.stack[state.depth];
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxSetCurrent(CUcontext ctx) {
  SIM_TRY(Usable());
  if (ctx != nullptr && !Valid(ctx, Magic::kContext)) return CUDA_ERROR_INVALID_CONTEXT;
  ThreadState& state = thread_state();
  if (ctx == nullptr) {
    if (state.depth > 0) LeaveGreen(state.stack[--state.depth]);
    return CUDA_SUCCESS;
  }
  return PushOrReplace(ctx, false);
}

CUresult Driver::cuCtxGetCurrent(CUcontext* pctx) {
  SIM_TRY(Usable());
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ThreadState& state = thread_state();
  *pctx = state.depth == 0 ? nullptr : state.stack[state.depth - 1];
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetDevice(CUdevice* device) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  if (ctx == nullptr) return cuCtxGetDevice(device);
  SIM_TRY(Usable());
  if (!Valid(ctx, Magic::kContext)) return CUDA_ERROR_INVALID_CONTEXT;
  *device = ctx->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetFlags(unsigned int* flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  CUcontext context = ctx;
  if (context == nullptr) SIM_TRY(CurrentContext(&context));
  if (!Valid(context, Magic::kContext)) return CUDA_ERROR_INVALID_CONTEXT;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

namespace {

CUresult Synchronize(CUcontext context) {
  const int64_t start = Now();
  const CUresult result = SynchronizeContext(context);
  if (Wants(kWantsSynchronization) && TheHooks() != nullptr) {
    const Synchronization event = {
        4,       context->id, 0xffffffffu, 0, 0, start, Now(), Correlation(), static_cast<uint32_t>(result),
        context, nullptr};
    TheHooks()->synchronized(event);
  }
  return result;
}

}  // namespace

CUresult Driver::cuCtxSynchronize() {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  return Synchronize(context);
}

CUresult Driver::cuCtxSynchronize_v2(CUcontext ctx) {
  if (ctx == nullptr) return cuCtxSynchronize();
  SIM_TRY(Usable());
  if (!Valid(ctx, Magic::kContext) || !ctx->alive.load()) return CUDA_ERROR_INVALID_CONTEXT;
  return Synchronize(ctx);
}

CUresult Driver::cuCtxSetLimit(CUlimit limit, size_t value) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  Guard guard(context->lock);
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  static constexpr size_t kDefaults[] = {1024, 7 << 20, 8 << 20, 2, 2048, 128, 0};
  Guard guard(context->lock);
  const auto found = context->limits.find(limit);
  if (found != context->limits.end()) {
    *pvalue = found->second;
  } else {
    *pvalue = static_cast<size_t>(limit) < sizeof(kDefaults) / sizeof(*kDefaults) ? kDefaults[limit] : 0;
  }
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  *pconfig = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

// A hint, without effect on this device.
CUresult Driver::cuCtxSetCacheConfig(CUfunc_cache config) {
  CUcontext context = nullptr;
  return CurrentContext(&context);
}

CUresult Driver::cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  SIM_TRY(Usable());
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (leastPriority != nullptr) *leastPriority = 0;
  if (greatestPriority != nullptr) *greatestPriority = -5;
  return CUDA_SUCCESS;
}

namespace {
Lock peers_lock;
std::vector<std::pair<CUcontext, CUcontext>> peers;
}  // namespace

CUresult Driver::cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!Valid(peerContext, Magic::kContext) || peerContext == context) return CUDA_ERROR_INVALID_CONTEXT;
  Guard guard(peers_lock);
  const auto pair = std::make_pair(context, peerContext);
  if (std::find(peers.begin(), peers.end(), pair) != peers.end()) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  peers.push_back(pair);
  return CUDA_SUCCESS;
}

CUresult Driver::cuCtxDisablePeerAccess(CUcontext peerContext) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  Guard guard(peers_lock);
  const auto found = std::find(peers.begin(), peers.end(), std::make_pair(context, peerContext));
  if (found == peers.end()) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  peers.erase(found);
  return CUDA_SUCCESS;
}

// Both only report to a tool.
CUresult Driver::cuProfilerStart() {
  CUcontext context = nullptr;
  return CurrentContext(&context);
}

CUresult Driver::cuProfilerStop() { return Driver::cuProfilerStart(); }

}  // namespace tbprof::sim
