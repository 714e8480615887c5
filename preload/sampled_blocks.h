// SPDX-License-Identifier: Apache-2.0
//
// The addresses of sampled blocks that are still there, so that the free of one can be recorded.
//
//   AddSampledBlock(block, random, &evicted);                  // when a sample of it is taken
//   if (MayBeSampled(block) && TakeSampledBlock(block)) ...    // before it goes: of most blocks one load
//
// A table of 4096 buckets of eight addresses, one cache line each. In front of it a count of the sampled blocks in each
// KiB of addresses, modulo 64 Mi: a thread that frees near what it freed before has that count in its cache, and of 512
// KiB between samples the count is 0 for all but one KiB in 512. Nothing of it is touched in a program that is not
// sampled.
//
// A fork child has its parent's blocks, and by copy-on-write its parent's table.
//
// Process: target, any thread, any signal handler. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_SAMPLED_BLOCKS_H_
#define TBPROF_PRELOAD_SAMPLED_BLOCKS_H_

#include <stdint.h>

namespace tbprof {

inline constexpr uint32_t kSampledRegions = 1u << 16;
// No count wraps: the table has 32768 places, and each thread in a hook adds one at most before it has a place.
extern __attribute__((visibility("hidden"))) uint16_t g_sampled_in_region[kSampledRegions];

inline uint16_t* SampledInRegion(uint64_t address) { return &g_sampled_in_region[(address >> 10) % kSampledRegions]; }

// False: it is none.
inline __attribute__((always_inline)) bool MayBeSampled(const void* block) {
  return __builtin_expect(__atomic_load_n(SampledInRegion(reinterpret_cast<uint64_t>(block)), __ATOMIC_RELAXED) != 0,
                          0);
}

// Before the program has the block. `random`: any number. Returns the block whose place it took, because there was no
// other; 0: none.
uint64_t AddSampledBlock(const void* block, uint64_t random);

// Whether it is one; from then on it is not.
bool TakeSampledBlock(const void* block);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_SAMPLED_BLOCKS_H_
