// SPDX-License-Identifier: Apache-2.0
//
// Observes PyTorch's own reports of its work: operations, backward nodes, and the ranges that it makes around
// optimizers and data loaders. PyTorch calls an observer that at::addGlobalCallback has added around each of them, in
// C++ and in Python programs. The layout of the observer's argument differs between releases, so only the builds in a
// list are observed (torch_build.cc).
//
//   if (TorchMayBeNear()) LookForTorch(TBPROF_SITE);   // in a hook that PyTorch's allocator calls
//
// The observer can only be added while PyTorch's own lock is free: in a call that PyTorch's tensor allocator makes, on
// the main thread or on the one that trains in its place, and while no thread forks (torch_turns.h). From glibc 2.35 on
// no look-up takes the loader's lock; nothing is loaded.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TORCH_OBSERVER_H_
#define TBPROF_PRELOAD_TORCH_OBSERVER_H_

#include <stdint.h>

#include "preload/state.h"

namespace tbprof {

enum class TorchWatch : uint32_t {
  kLooking,    // PyTorch was not seen, or was seen where it cannot be observed
  kObserving,  // PyTorch calls the observers
  kPaused,     // PyTorch calls the observer of ranges only: there were too many operations
  kSilent,     // PyTorch has disabled the observers: no window has been open for a while
  kOff,        // PyTorch cannot or must not be observed in this process
};
extern __attribute__((visibility("hidden"))) TorchWatch g_torch_watch;

// A load and two branches once PyTorch is observed, or cannot be.
inline bool TorchMayBeNear() {
  const TorchWatch watch = __atomic_load_n(&g_torch_watch, __ATOMIC_RELAXED);
  return __builtin_expect(watch != TorchWatch::kObserving && watch != TorchWatch::kOff, 0) && Armed(kFamilyAnnotation);
}

// `caller`: the return address of the hook.
void LookForTorch(const void* caller);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_OBSERVER_H_
