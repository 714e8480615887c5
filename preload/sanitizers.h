// SPDX-License-Identifier: Apache-2.0
//
// Finds the sanitizer runtime that the hooks call. Sanitizers take the caller's address and walk its frames: a hook in
// between changes their reports, and suppressions by function no longer match.
//
// Process: target, in the constructor only. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_SANITIZERS_H_
#define TBPROF_PRELOAD_SANITIZERS_H_

namespace tbprof {

enum class SanitizerRuntime {
  kNone,
  // AddressSanitizer, LeakSanitizer: the stack of an allocation is walked by frame pointers.
  kAllocator,
  // ThreadSanitizer: each function that it intercepts pushes its caller's address on a stack of its own.
  kEveryCall,
};

// The runtime of the library whose malloc or pthread_create the hooks call. A runtime that is linked into the program
// comes before the hooks and sees its own callers.
SanitizerRuntime FindSanitizerRuntime();

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_SANITIZERS_H_
