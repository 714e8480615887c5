// SPDX-License-Identifier: Apache-2.0
//
// The hooks on CUDA's driver interface and what stands behind each of them.
//
//   Hook_cuLaunchKernel     what a look-up gives; calls the one pointer that it stands for
//   Linked_cuLaunchKernel   exported, for references of programs that are linked with the driver; finds out whose
//                           function the caller means, and goes by the hook only where that is the same pointer
//
// A process can have several drivers: a forwarding one (WSL2, shims that share a GPU) beside the one that it forwards
// to, or copies. A hook stands for the first pointer that it was given, and never for another.
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

// X(symbol, parameters, arguments): those that are no rows of cuda_calls.def.
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

// The pointer that the hook of a function stands for; set once.
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
