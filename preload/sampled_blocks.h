// SPDX-License-Identifier: Apache-2.0
//
// The addresses of sampled blocks that were not freed yet, so that their free can be recorded.
//
//   evicted = AddSampledBlock(block, random);                  // when a sample of the block is taken
//   if (MayBeSampled(block) && TakeSampledBlock(block)) ...    // before it is freed; one load for most blocks
//
// A table of 4096 buckets of eight addresses, one cache line each. In front of it is an array with the number of
// sampled blocks in each KiB of addresses, modulo 64 Mi: a thread that frees near its earlier frees has that number in
// its cache, and with 512 KiB between samples it is 0 for all but one KiB in 512. A program that is not sampled touches
// none of this.
//
// A fork child has its parent's blocks and, by copy-on-write, its parent's table.
//
// Process: target, any thread, any signal handler. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_SAMPLED_BLOCKS_H_
#define TBPROF_PRELOAD_SAMPLED_BLOCKS_H_

#include <stdint.h>

namespace tbprof {

inline constexpr uint32_t kSampledRegions = 1u << 16;
// No count wraps: the table has 32768 places, and each thread in a hook counts at most one block that has no place yet.
extern __attribute__((visibility("hidden"))) uint16_t g_sampled_in_region[kSampledRegions];

inline uint16_t* SampledInRegion(uint64_t address) { return &g_sampled_in_region[(address >> 10) % kSampledRegions]; }

// False: not a sampled block.
inline __attribute__((always_inline)) bool MayBeSampled(const void* block) {
  return __builtin_expect(__atomic_load_n(SampledInRegion(reinterpret_cast<uint64_t>(block)), __ATOMIC_RELAXED) != 0,
                          0);
}

// Call this before the program gets the block. `random`: any number. Returns the block that was evicted because the
// bucket was full; 0: none.
uint64_t AddSampledBlock(const void* block, uint64_t random);

// Removes a block from the table. Returns whether it was a sampled block.
bool TakeSampledBlock(const void* block);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_SAMPLED_BLOCKS_H_
