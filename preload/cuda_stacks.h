// SPDX-License-Identifier: Apache-2.0
//
// Records the Python stacks of calls of the CUDA driver: the records of CUPTI and of the observer have no room for
// them.
//
//   const uint64_t begin = BeginCudaCall();
//   const int result = g_cuda.cuStreamSynchronize(stream);
//   EndCudaCall(begin);
//
// A thread records at most one stack every 50 us, so that launches of a few microseconds are slowed down by less than 1
// %. A call that waits for 50 us always has a stack. The converter finds the call by its time.
//
// Process: target, any thread, any signal handler. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_CUDA_STACKS_H_
#define TBPROF_PRELOAD_CUDA_STACKS_H_

#include <stdint.h>

#include "preload/python.h"
#include "preload/state.h"

namespace tbprof {

void RecordCudaCallStack(uint64_t begin);

// 0: no stack is wanted.
inline uint64_t BeginCudaCall() {
  const bool is_wanted = __atomic_load_n(&g_python, __ATOMIC_RELAXED) != nullptr && Armed(kFamilyGpu);
  return __builtin_expect(is_wanted, 0) ? Ticks() : 0;
}
inline void EndCudaCall(uint64_t begin) {
  if (begin != 0) RecordCudaCallStack(begin);
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_CUDA_STACKS_H_
