// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUDA runtime: one source for libcudart.so.13, libcudart.so.12 and the archive that stands in for the
// static runtime. It reaches the driver as NVIDIA's runtime does: dlopen("libcuda.so.1"), one dlsym for
// cuGetProcAddress_v2, everything else through that pointer. No driver function is named at link time.
#ifndef TBPROF_TESTS_SIM_RUNTIME_H_
#define TBPROF_TESTS_SIM_RUNTIME_H_

#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

#include "tests/sim/tools.h"

// cuda.h renames these plain names, which are calls of their own here.
#undef cuGetProcAddress
#undef cuEventElapsedTime
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

namespace tbprof::sim {

// The driver's functions as the runtime has looked them up: once for the legacy default stream, once for the thread's.
struct DriverApi {
#define SIM_DRIVER(symbol, base, version, parameters, arguments) CUresult(*symbol) parameters;
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  CUresult(*symbol) parameters;
#include "tests/sim/driver.def"
};

// The bodies of the runtime calls (runtime.def). A class for the same reason as Driver.
struct Runtime {
#define SIM_RUNTIME(name, version, parameters, arguments) static cudaError_t name parameters;
#define SIM_RUNTIME_STREAM(name, version, suffix, suffix_version, parameters, arguments) \
  static cudaError_t name parameters;
#include "tests/sim/runtime.def"
};

struct RuntimeThread {
  int device;
  cudaError_t last_error;
  bool per_thread_default;
  uint32_t configurations;
  struct {
    dim3 grid;
    dim3 block;
    size_t shared;
    cudaStream_t stream;
  } configuration[8];
};
RuntimeThread& runtime_thread();

// Loads the driver; without one cudaErrorInsufficientDriver.
cudaError_t LoadDriver();
// LoadDriver, cuInit.
cudaError_t Boot();
// Boot, and a current context: the primary one of the thread's device unless the program has set another.
cudaError_t Ready();
// The functions of the driver by the calling thread's default stream; valid after LoadDriver.
const DriverApi& Api();
const Table* ToolsTable();  // null before LoadDriver
bool Booted();

// registration.cc: what the compiler's code registers before main.
cudaError_t FindKernel(const void* symbol, CUkernel* out);
cudaError_t FindVariable(const void* symbol, CUdeviceptr* address, size_t* bytes);
void ForgetDeviceState();  // after cudaDeviceReset

inline cudaError_t ToRuntime(CUresult result) { return static_cast<cudaError_t>(result); }

#define SIM_RUNTIME_TRY(expression)                                               \
  do {                                                                            \
    if (const cudaError_t sim_result = (expression); sim_result != cudaSuccess) { \
      return sim_result;                                                          \
    }                                                                             \
  } while (false)

}  // namespace tbprof::sim

#endif  // TBPROF_TESTS_SIM_RUNTIME_H_
