// SPDX-License-Identifier: Apache-2.0
//
// The part of GPU recording that is present in every process. Without CUDA it does almost nothing.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_GPU_H_
#define TBPROF_PRELOAD_GPU_H_

namespace tbprof {

extern __attribute__((visibility("hidden"))) void (*g_gpu_at_end)();  // null if CUDA is not used
void CallGpuAtEnd();

// Call this before the process ends without exit handlers or executes another program. May take as long as the time
// limit of a flush of device activity. Without CUDA it is a load and a branch, inlined: an ending fork child has not
// mapped other pages of this library's code.
inline void NotifyGpuOfEnd() {
  if (__builtin_expect(__atomic_load_n(&g_gpu_at_end, __ATOMIC_ACQUIRE) != nullptr, 0)) CallGpuAtEnd();
}

// The program's own use of CUPTI.
class CuptiUse;
extern __attribute__((visibility("hidden"))) CuptiUse g_cupti_use;
// Sets the function that a hook calls before a CUPTI call of the program while tbprof holds CUPTI. `suspend` returns
// when tbprof has released CUPTI.
void SetYield(void (*suspend)());

// Call only in the constructor: takes the loader's lock.
void FindDriverAtStart();

// The program has given a name to the stream with this handle.
void NameGpuStream(void* stream, const char* name);

// Sets the observer that receives CUDA's calls from now on. False: this session does not hook them.
struct CudaObserver;
bool SetObserver(const CudaObserver* observer);
// The function that NVTX looks up in this library.
void* NvtxInjection();

// Returns the result for a look-up of `symbol` in the driver's library that has found `found`: a hook or `found`.
// `is_callers`: the caller's own references have the target `found`.
void* CudaHookOf(const char* symbol, void* found, bool is_callers);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_GPU_H_
