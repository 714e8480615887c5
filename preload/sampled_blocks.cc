// SPDX-License-Identifier: Apache-2.0
#include "preload/sampled_blocks.h"

namespace tbprof {
namespace {

constexpr uint32_t kBucketBits = 12;
constexpr uint32_t kPlaces = 8;

struct alignas(64) Bucket {
  uint64_t blocks[kPlaces];  // 0: a free place
};
Bucket g_buckets[1u << kBucketBits];

Bucket* BucketOf(uint64_t block) { return &g_buckets[(block >> 4) * 0x9e3779b97f4a7c15 >> (64 - kBucketBits)]; }

// The count is raised before the address enters the table and lowered after it has left, so a thread that reads 0
// misses no block.
void Count(uint64_t block, int change) {
  __atomic_fetch_add(SampledInRegion(block), static_cast<uint16_t>(change), __ATOMIC_RELEASE);
}

}  // namespace

uint16_t g_sampled_in_region[kSampledRegions];

uint64_t AddSampledBlock(const void* block, uint64_t random) {
  const auto address = reinterpret_cast<uint64_t>(block);
  Bucket* const bucket = BucketOf(address);
  // A block that was freed while nothing was recorded is still in the table, and its address was allocated again.
  for (const uint64_t& place : bucket->blocks) {
    if (__atomic_load_n(&place, __ATOMIC_RELAXED) == address) return 0;
  }
  Count(address, 1);
  for (uint64_t& place : bucket->blocks) {
    uint64_t expected = 0;
    if (__atomic_load_n(&place, __ATOMIC_RELAXED) != 0) continue;
    if (__atomic_compare_exchange_n(&place, &expected, address, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return 0;
  }
  const uint64_t evicted = __atomic_exchange_n(&bucket->blocks[random % kPlaces], address, __ATOMIC_ACQ_REL);
  if (evicted != 0) Count(evicted, -1);
  return evicted;
}

bool TakeSampledBlock(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  for (uint64_t& place : BucketOf(address)->blocks) {
    uint64_t expected = address;
    if (__atomic_load_n(&place, __ATOMIC_RELAXED) != address) continue;
    if (!__atomic_compare_exchange_n(&place, &expected, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    Count(address, -1);
    return true;
  }
  return false;
}

}  // namespace tbprof
