// SPDX-License-Identifier: Apache-2.0
//
// The hooks on CUDA's driver interface and the real function behind each hook.
//
//   Hook_cuLaunchKernel     returned by look-ups; calls the one real function that the hook stands for
//   Linked_cuLaunchKernel   exported for programs that are linked with the driver; finds the function that the caller's
//                           reference means, and calls the hook only if the hook stands for that function
//
// A process can contain several drivers: a forwarding driver (WSL2, shims that share a GPU) beside the driver that it
// forwards to, or copies. A hook stands for the first pointer that it was given, and never for another.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_CUDA_FUNCTIONS_H_
#define TBPROF_PRELOAD_CUDA_FUNCTIONS_H_

#include <stddef.h>
#include <stdint.h>

#include "preload/hooks.h"
#include "wire/cuda_observer.h"

namespace tbprof {

inline constexpr int kCudaNotFound = 500;

// X(symbol, parameters, arguments): hooked functions that have no row in cuda_calls.def.
#define TBPROF_CUDA_OTHERS(X)                                                                           \
  X(cuGetProcAddress, (const char* name, void** function, int version, uint64_t flags),                 \
    (name, function, version, flags))                                                                   \
  X(cuGetProcAddress_v2, (const char* name, void** function, int version, uint64_t flags, int* status), \
    (name, function, version, flags, status))                                                           \
  X(cuProfilerStart, (), ())                                                                            \
  X(cuProfilerStop, (), ())

struct CudaFunctions {
#define TBPROF_CUDA_CALL(symbol, name, since, until, parameters, ...) int(*symbol) parameters;
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, suffix_since, parameters, ...) \
  int(*symbol) parameters;                                                                         \
  int(*symbol##suffix) parameters;
#include "wire/cuda_calls.def"
#define TBPROF_CUDA_OTHER(symbol, parameters, arguments) int(*symbol) parameters;
  TBPROF_CUDA_OTHERS(TBPROF_CUDA_OTHER)
#undef TBPROF_CUDA_OTHER
};

// The real function that each hook stands for; set once.
extern __attribute__((visibility("hidden"))) CudaFunctions g_cuda;

#define TBPROF_CUDA_CALL(symbol, name, since, until, parameters, ...) \
  int Hook_##symbol parameters;                                       \
  TBPROF_HIDDEN int Linked_##symbol parameters asm("tbprof_" #symbol);
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, suffix_since, parameters, ...) \
  TBPROF_CUDA_CALL(symbol, name, since, until, parameters, )                                       \
  TBPROF_CUDA_CALL(symbol##suffix, name, since, until, parameters, )
#include "wire/cuda_calls.def"
#define TBPROF_CUDA_OTHER(symbol, parameters, arguments) \
  int Hook_##symbol parameters;                          \
  TBPROF_HIDDEN int Linked_##symbol parameters asm("tbprof_" #symbol);
TBPROF_CUDA_OTHERS(TBPROF_CUDA_OTHER)
#undef TBPROF_CUDA_OTHER

// Whether calls are hooked, and whether cuProfilerStart and cuProfilerStop are.
bool AreCudaHooksWanted();
bool IsProfilerSwitchWanted();

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_CUDA_FUNCTIONS_H_
