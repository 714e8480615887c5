// SPDX-License-Identifier: Apache-2.0
//
// Sanitizer runtimes behind our hooks. They take the caller's address and walk its frames: a hook in between changes
// reports, and makes suppressions by function miss.
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

// Of the library whose malloc or pthread_create our hooks call. A runtime that is linked into the program comes before
// our hooks, and sees its callers.
SanitizerRuntime FindSanitizerRuntime();

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_SANITIZERS_H_
