// SPDX-License-Identifier: Apache-2.0
//
// The table of sampled blocks.
#include "preload/sampled_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tbprof {
namespace {

const void* BlockAt(uint64_t address) { return reinterpret_cast<const void*>(address); }

TEST(SampledBlocks, AddedBlock_IsTakenOnce) {
  const void* const block = BlockAt(0x7f0000001230);
  EXPECT_FALSE(MayBeSampled(block));
  EXPECT_EQ(AddSampledBlock(block, 0), 0u);
  EXPECT_TRUE(MayBeSampled(block));
  EXPECT_FALSE(TakeSampledBlock(BlockAt(0x7f0000001240))) << "another one near it";
  EXPECT_TRUE(TakeSampledBlock(block));
  EXPECT_FALSE(TakeSampledBlock(block));
  EXPECT_FALSE(MayBeSampled(block));
}

TEST(SampledBlocks, BlockThatWentUnseen_IsThereOnce) {
  const void* const block = BlockAt(0x7f0000005670);
  AddSampledBlock(block, 0);
  EXPECT_EQ(AddSampledBlock(block, 1), 0u);
  EXPECT_TRUE(TakeSampledBlock(block));
  EXPECT_FALSE(MayBeSampled(block));
}

TEST(SampledBlocks, MoreThanThereIsRoomFor_EachIsTakenOrEvicted) {
  constexpr uint64_t kBlocks = 100'000, kFirst = 0x7f1000000010;
  std::vector<bool> evicted(kBlocks);
  uint64_t evictions = 0;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t gone = AddSampledBlock(BlockAt(kFirst + i * 176), i * 0x9e3779b97f4a7c15 >> 40);
    if (gone == 0) continue;
    evicted[(gone - kFirst) / 176] = true;
    ++evictions;
  }
  EXPECT_GE(evictions, kBlocks - 32768);
  uint64_t taken = 0;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const void* const block = BlockAt(kFirst + i * 176);
    const bool is_there = MayBeSampled(block) && TakeSampledBlock(block);
    EXPECT_NE(is_there, evicted[i]) << i;
    taken += is_there ? 1 : 0;
  }
  EXPECT_EQ(taken + evictions, kBlocks);
  for (uint32_t i = 0; i < kSampledRegions; ++i) ASSERT_EQ(g_sampled_in_region[i], 0) << i;
}

// One thread passes its blocks to another thread, which frees them.
TEST(SampledBlocks, ThreadsAddAndTake_NoneIsMissed) {
  constexpr int kPairs = 4, kBlocks = 2'000;
  std::atomic<uint64_t> missed = 0, evictions = 0;
  std::vector<std::thread> threads;
  std::vector<std::atomic<uint64_t>> handed(kPairs);
  for (int pair = 0; pair < kPairs; ++pair) {
    threads.emplace_back([&, pair] {
      for (uint64_t i = 1; i <= kBlocks; ++i) {
        const uint64_t address = 0x7f2000000000 + (i % 512 * kPairs + static_cast<uint64_t>(pair)) * 64;
        evictions += AddSampledBlock(BlockAt(address), i) != 0 ? 1 : 0;
        handed[static_cast<size_t>(pair)] = address;
        while (handed[static_cast<size_t>(pair)] != 0) std::this_thread::yield();
      }
      handed[static_cast<size_t>(pair)] = 1;
    });
    threads.emplace_back([&, pair] {
      std::atomic<uint64_t>& mine = handed[static_cast<size_t>(pair)];
      for (uint64_t address = 0; address != 1; std::this_thread::yield()) {
        address = mine;
        if (address <= 1) continue;
        missed += MayBeSampled(BlockAt(address)) && TakeSampledBlock(BlockAt(address)) ? 0 : 1;
        mine = 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missed, 0u);
  EXPECT_EQ(evictions, 0u) << "there is room for all of them";
  for (uint32_t i = 0; i < kSampledRegions; ++i) ASSERT_EQ(g_sampled_in_region[i], 0) << i;
}

}  // namespace
}  // namespace tbprof
