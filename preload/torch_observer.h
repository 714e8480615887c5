// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's own account of its work: operations, backward nodes, and the ranges that it makes around optimizers and
// data loaders. at::addGlobalCallback calls an observer around each of them, in C++ programs as in Python's; what it is
// called with has a layout of its own in each release, so only those of a list are observed (torch_build.cc).
//
//   if (TorchMayBeNear()) LookForTorch(TBPROF_SITE);   // in a hook that PyTorch's allocator calls
//
// The observer can only be added where PyTorch's own lock is free: in a call that its allocator for tensors makes, and
// on the main thread, which is mostly the one that forks: a child that another thread forks in that microsecond would
// find the lock taken. From glibc 2.35 on no look-up takes the loader's lock; nothing is loaded.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TORCH_OBSERVER_H_
#define TBPROF_PRELOAD_TORCH_OBSERVER_H_

#include <stdint.h>

#include "preload/state.h"

namespace tbprof {

enum class TorchWatch : uint32_t {
  kLooking,    // not seen, or seen where nothing could be done
  kObserving,  // PyTorch calls us
  kPaused,     // PyTorch calls us for its ranges only: its operations were too many
  kSilent,     // it would, but no window has been open for a while: the observers are disabled in it
  kOff,        // it cannot or must not be observed in this process
};
extern __attribute__((visibility("hidden"))) TorchWatch g_torch_watch;

// A load and two branches once PyTorch is observed, or cannot be.
inline bool TorchMayBeNear() {
  const TorchWatch watch = __atomic_load_n(&g_torch_watch, __ATOMIC_RELAXED);
  return __builtin_expect(watch != TorchWatch::kObserving && watch != TorchWatch::kOff, 0) && Armed(kFamilyAnnotation);
}

// `caller`: whose call the hook is.
void LookForTorch(const void* caller);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_OBSERVER_H_
