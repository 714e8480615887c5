// SPDX-License-Identifier: Apache-2.0
//
// Pointers to the functions of the CUDA driver that the observer itself calls.
//
// Process: target.
#ifndef TBPROF_CUPTI_DRIVER_API_H_
#define TBPROF_CUPTI_DRIVER_API_H_

#include "wire/cuda_observer.h"

namespace tbprof::cupti {

inline constexpr int kDriverSuccess = 0, kDriverNotReady = 600;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr unsigned kStreamNonBlocking = 1;

// name, needed, parameters.
#define TBPROF_DRIVER_FUNCTIONS(ROW)                                                    \
  ROW(cuCtxGetCurrent, true, (void**))                                                  \
  ROW(cuCtxGetDevice, true, (int*))                                                     \
  ROW(cuCtxPushCurrent_v2, true, (void*))                                               \
  ROW(cuCtxPopCurrent_v2, true, (void**))                                               \
  ROW(cuEventCreate, true, (void**, unsigned))                                          \
  ROW(cuEventDestroy_v2, true, (void*))                                                 \
  ROW(cuEventRecord, true, (void*, void*))                                              \
  ROW(cuEventQuery, true, (void*))                                                      \
  ROW(cuEventElapsedTime, true, (float*, void*, void*))                                 \
  ROW(cuStreamCreate, true, (void**, unsigned))                                         \
  ROW(cuStreamDestroy_v2, true, (void*))                                                \
  ROW(cuStreamIsCapturing, true, (void*, int*))                                         \
  ROW(cuThreadExchangeStreamCaptureMode, false, (int*))                                 \
  ROW(cuStreamGetCtx, false, (void*, void**))                                           \
  ROW(cuStreamGetCtx_v2, false, (void*, void**, void**))                                \
  ROW(cuDevicePrimaryCtxRetain, false, (void**, int))                                   \
  ROW(cuDevicePrimaryCtxRelease_v2, false, (int))                                       \
  ROW(cuDevicePrimaryCtxGetState, false, (int, unsigned*, int*))                        \
  ROW(cuPointerGetAttribute, false, (void*, int, uint64_t))                             \
  ROW(cuMemGetAllocationPropertiesFromHandle, false, (CudaMemoryProperties*, uint64_t)) \
  ROW(cuFuncGetName, false, (const char**, void*))                                      \
  ROW(cuKernelGetName, false, (const char**, void*))                                    \
  ROW(cuFuncGetAttribute, false, (int*, int, void*))                                    \
  ROW(cuKernelGetAttribute, false, (int*, int, void*, int))                             \
  ROW(cuDeviceGetName, false, (char*, int, int))                                        \
  ROW(cuDeviceTotalMem_v2, false, (uint64_t*, int))                                     \
  ROW(cuDeviceGetUuid_v2, false, (uint8_t*, int))                                       \
  ROW(cuDeviceGetAttribute, false, (int*, int, int))

struct Driver {
#define TBPROF_MEMBER(name, needed, parameters) int(*name) parameters;
  TBPROF_DRIVER_FUNCTIONS(TBPROF_MEMBER)
#undef TBPROF_MEMBER
};

// CUfunction_attribute, CUdevice_attribute, CUpointer_attribute.
enum : int { kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4 };
enum : int {
  kDeviceThreadsPerBlock = 1,
  kDeviceSharedPerBlock = 8,
  kDeviceWarp = 10,
  kDeviceRegistersPerBlock = 12,
  kDeviceClock = 13,
  kDeviceProcessors = 16,
  kDeviceIntegrated = 18,
  kDevicePciBus = 33,
  kDevicePciDevice = 34,
  kDeviceMemoryClock = 36,
  kDeviceBusWidth = 37,
  kDeviceL2 = 38,
  kDeviceThreadsPerProcessor = 39,
  kDevicePciDomain = 50,
  kDeviceMajor = 75,
  kDeviceMinor = 76,
  kDeviceSharedPerProcessor = 81,
  kDeviceRegistersPerProcessor = 82,
  kDeviceBlocksPerProcessor = 106,
};
inline constexpr int kPointerMemoryType = 2, kPointerDevice = 9;

// False: the driver is not loaded, or lacks a needed function.
bool FindDriver(Driver* driver);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_DRIVER_API_H_
