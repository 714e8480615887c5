// SPDX-License-Identifier: Apache-2.0
//
// Estimates of a heap from samples and their frees, made by hand.
#include "writer/convert/sampled_heap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tbprof {
namespace {

constexpr Identity kProcess{1, 1}, kChild{1, 2};
constexpr uint64_t kInterval = 512 << 10;

class SampledHeapTest : public testing::Test {
 protected:
  void Take(uint64_t ticks, uint64_t address, uint64_t size, uint32_t site, Identity process = kProcess) {
    AllocationSampleRecord sample{};
    sample.ticks = ticks;
    sample.address = address;
    sample.size = size;
    sample.weight = 3;
    sample.interval = kInterval;
    heap_.TakeSample(process, sample, site);
  }
  void Free(uint64_t ticks, uint64_t address, uint8_t flags = 0, Identity process = kProcess) {
    heap_.TakeFree(process, flags, {{}, ticks, address, 0});
  }
  double BytesAt(uint64_t ticks, uint32_t site, Identity process = kProcess) {
    auto sites = heap_.At(process, ticks);
    return sites[site].bytes;
  }

  SpoolFacts facts_;
  SampledHeap heap_{&facts_};
};

TEST_F(SampledHeapTest, Block_IsThereUntilItsFree) {
  Take(10, 0x1000, kInterval * 10, 1);
  Free(20, 0x1000);
  // The records of another thread come later, with earlier times.
  Take(5, 0x2000, kInterval * 20, 2);
  heap_.Finish();
  EXPECT_NEAR(BytesAt(7, 2), kInterval * 20, 1);
  EXPECT_EQ(BytesAt(7, 1), 0);
  EXPECT_NEAR(BytesAt(19, 1), kInterval * 10, kInterval * 0.001);
  EXPECT_EQ(BytesAt(20, 1), 0);
  EXPECT_NEAR(BytesAt(100, 2), kInterval * 20, 1);
}

TEST_F(SampledHeapTest, SmallBlock_StandsForAnInterval) {
  Take(10, 0x1000, 1024, 1);
  heap_.Finish();
  EXPECT_NEAR(BytesAt(10, 1), kInterval, 1024);
}

TEST_F(SampledHeapTest, AddressGivenOutAgain_IsTheNewBlock) {
  Take(10, 0x1000, kInterval * 10, 1);
  Free(20, 0x1000);
  Take(20, 0x1000, kInterval * 20, 2);
  // The free of this block was not recorded.
  Take(30, 0x1000, kInterval * 30, 3);
  heap_.Finish();
  EXPECT_EQ(BytesAt(20, 1), 0);
  EXPECT_GT(BytesAt(20, 2), 0);
  EXPECT_EQ(BytesAt(30, 2), 0);
  EXPECT_GT(BytesAt(30, 3), 0);
}

TEST_F(SampledHeapTest, FailedRealloc_LeavesTheBlock) {
  Take(10, 0x1000, kInterval * 10, 1);
  Free(20, 0x1000);
  Free(21, 0x1000, kRecordFailed);
  heap_.Finish();
  EXPECT_EQ(BytesAt(20, 1), 0);
  EXPECT_GT(BytesAt(21, 1), 0);
}

TEST_F(SampledHeapTest, BlockWithoutRoom_IsCounted) {
  Take(10, 0x1000, kInterval * 10, 1);
  Free(20, 0x1000, kRecordNotFollowed);
  heap_.Finish();
  EXPECT_EQ(heap_.NotFollowed(kProcess), 1u);
  EXPECT_EQ(BytesAt(20, 1), 0);
}

TEST_F(SampledHeapTest, ForkChild_HasItsParentsBlocks) {
  facts_.processes[kProcess].start_ticks = 1;
  ProcessFacts& child = facts_.processes[kChild];
  child.forked = true;
  child.parent_serial = kProcess.serial;
  child.start_ticks = 50;
  Take(10, 0x1000, kInterval * 10, 1);
  Take(11, 0x2000, kInterval * 10, 2);
  Free(60, 0x2000);
  Take(61, 0x3000, kInterval * 10, 3);
  Free(70, 0x1000, 0, kChild);
  heap_.Finish();
  EXPECT_GT(BytesAt(65, 1, kChild), 0);
  EXPECT_EQ(BytesAt(75, 1, kChild), 0);
  EXPECT_GT(BytesAt(75, 2, kChild), 0) << "the parent gave back its own";
  EXPECT_EQ(BytesAt(75, 3, kChild), 0);
  EXPECT_GT(BytesAt(75, 1), 0);
}

// Samples like the target's: a block has a sample if it contains a point of a Poisson process.
TEST_F(SampledHeapTest, Estimates_AreUnbiased) {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> distance(1.0 / kInterval);
  double until = distance(random), truth[3] = {};
  uint64_t address = 0x10000;
  for (int i = 0; i < 400'000; ++i) {
    const auto site = static_cast<uint32_t>(i % 3);
    const uint64_t size = site == 0 ? 700 : site == 1 ? 20'000 : 300'000;
    truth[site] += static_cast<double>(size);
    until -= static_cast<double>(size);
    address += 1024;
    if (until > 0) continue;
    while (until <= 0) until += distance(random);
    Take(static_cast<uint64_t>(i) + 1, address, size, site);
  }
  heap_.Finish();
  // Five standard deviations for n samples: 180, 5000, 60000.
  EXPECT_NEAR(BytesAt(UINT64_MAX, 0) / truth[0], 1, 0.38);
  EXPECT_NEAR(BytesAt(UINT64_MAX, 1) / truth[1], 1, 0.07);
  EXPECT_NEAR(BytesAt(UINT64_MAX, 2) / truth[2], 1, 0.02);
}

}  // namespace
}  // namespace tbprof
