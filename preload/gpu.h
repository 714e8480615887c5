// SPDX-License-Identifier: Apache-2.0
//
// GPU recording as far as it is in every process: almost nothing.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_GPU_H_
#define TBPROF_PRELOAD_GPU_H_

namespace tbprof {

extern __attribute__((visibility("hidden"))) void (*g_gpu_at_end)();  // null where no CUDA is used
void CallGpuAtEnd();

// Before this process ends without exit handlers or becomes another program. May take as long as a flush of device
// activity is given. A load and a branch without CUDA, here: a fork child on its way out has no page of other code.
inline void TellGpuOfEnd() {
  if (__builtin_expect(__atomic_load_n(&g_gpu_at_end, __ATOMIC_ACQUIRE) != nullptr, 0)) CallGpuAtEnd();
}

// What the program has of CUPTI.
class CuptiUse;
extern __attribute__((visibility("hidden"))) CuptiUse g_cupti_use;
// What is called before a call of the program's is handed on while tbprof holds CUPTI; it returns when it does not.
void SetYield(void (*suspend)());

// In the constructor: takes the loader's lock.
void FindDriverAtStart();

// The program has named a stream, by its handle.
void NameGpuStream(void* stream, const char* name);

// Who receives CUDA's calls from now on. False: this session hooks none.
struct CudaObserver;
bool SetObserver(const CudaObserver* observer);
// What NVTX looks up in this library.
void* NvtxInjection();

// What a look-up of `symbol` in the driver's library gives, that has found `found`. `is_callers`: it was found where
// the caller's own references lead.
void* CudaHookOf(const char* symbol, void* found, bool is_callers);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_GPU_H_
