// SPDX-License-Identifier: Apache-2.0
//
// A bump arena for allocations that happen before the real allocator is known: by dlsym (glibc before 2.34), by
// constructors of other preloaded libraries, by allocators during their start. Blocks are never freed.
//
// Process: target, any thread. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_BOOTSTRAP_H_
#define TBPROF_PRELOAD_BOOTSTRAP_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof {

inline constexpr size_t kArenaBytes = 64 * 1024;
extern __attribute__((visibility("hidden"))) unsigned char g_arena[kArenaBytes];

// Zeroed, aligned to at least 16; null when the arena is full.
void* ArenaAllocate(size_t size, size_t alignment);
size_t ArenaSize(const void* block);

inline bool InArena(const void* block) {
  return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(g_arena) < kArenaBytes;
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_BOOTSTRAP_H_
