// SPDX-License-Identifier: Apache-2.0
//
// Blocks traced by their records: pairs, peaks and sites, with few timestamps and several threads.
#include "writer/convert/heap_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace tbprof {
namespace {

constexpr uint64_t kOpen = 1000;
constexpr uint64_t kClose = 1'000'000'000;

class HeapBlocksTest : public testing::Test {
 protected:
  // `ticks` 0: without a time.
  void Came(uint32_t thread, uint64_t address, uint64_t size, uint64_t site, uint64_t ticks) {
    Take(thread, address, size, site, ticks, 0);
  }
  void Went(uint32_t thread, uint64_t address, uint64_t size, uint64_t ticks) {
    Take(thread, address, size, 0xf0, ticks, kRecordRelease);
  }
  void Take(uint32_t thread, uint64_t address, uint64_t size, uint64_t site, uint64_t ticks, uint8_t flags) {
    AllocationRecord record{};
    record.tag.flags = flags;
    PackAllocation(&record, address, size, site, ticks);
    Of(thread);
    blocks_.Take(record);
  }
  void Time(uint32_t thread, uint64_t ticks) {
    Of(thread);
    blocks_.Time(ticks);
  }
  // The next records are of `thread`; the launcher's pass at time `pass` read them.
  void BeginChunk(uint32_t thread, uint64_t pass) {
    thread_ = thread;
    pass_ = pass;
    BeginFrame(thread, pass, thread, 1);
  }
  void BeginFrame(uint32_t thread, uint64_t pass, uint32_t chunk, uint16_t first_slot) {
    blocks_.BeginFrame({chunk, 1, first_slot, 1, 0, 1, thread, pass});
  }
  void Of(uint32_t thread) {
    if (thread != thread_) BeginChunk(thread, pass_);
  }
  HeapBlocks::Site SiteAt(uint64_t address) const {
    for (const HeapBlocks::Site& site : blocks_.sites()) {
      if (site.address == address) return site;
    }
    return {};
  }
  const HeapBlocks::Totals& totals() const { return blocks_.totals(); }

  uint32_t thread_ = 0;
  uint64_t pass_ = 0;
  size_t room_ = 1000;
  HeapBlocks blocks_{kOpen, kClose, &room_};
};

TEST_F(HeapBlocksTest, Peak_HasTheBlocksAndSitesOfThatTime) {
  BeginChunk(1, 5000);
  Came(1, 0x10, 100, 0xa, 2000);
  Came(1, 0x20, 300, 0xb, 2010);
  Came(1, 0x30, 50, 0xa, 2020);
  Went(1, 0x20, 300, 2030);
  Came(1, 0x20, 200, 0xc, 2040);
  Went(1, 0x10, 100, 2050);
  blocks_.Finish();
  EXPECT_EQ(totals().allocations, 4u);
  EXPECT_EQ(totals().releases, 2u);
  EXPECT_EQ(totals().live_blocks, 2u);
  EXPECT_EQ(totals().live_bytes, 250);
  EXPECT_EQ(totals().peak_bytes, 450);
  EXPECT_EQ(totals().peak_ticks, 2020u);
  EXPECT_EQ(totals().temporary, 0u);
  EXPECT_EQ(totals().ambiguous, 0u);
  EXPECT_EQ(SiteAt(0xa).calls, 2u);
  EXPECT_EQ(SiteAt(0xa).bytes, 150u);
  EXPECT_EQ(SiteAt(0xa).peak_bytes, 150);
  EXPECT_EQ(SiteAt(0xa).live_bytes, 50);
  EXPECT_EQ(SiteAt(0xb).peak_bytes, 300);
  EXPECT_EQ(SiteAt(0xb).live_bytes, 0);
  EXPECT_EQ(SiteAt(0xc).peak_bytes, 0) << "came after the peak";
  EXPECT_EQ(SiteAt(0xc).live_blocks, 1u);
  EXPECT_EQ(room_, 998u);
}

TEST_F(HeapBlocksTest, LargeSizeAndAddress_KeepTheirUpperBits) {
  BeginChunk(1, 5000);
  const uint64_t size = 0x1234'5678'9abc;
  Came(1, 0x7fff'1234'5678, size, 0x7fff'8765'4321, 2000);
  blocks_.Finish();
  EXPECT_EQ(totals().live_bytes, static_cast<int64_t>(size));
  EXPECT_EQ(SiteAt(0x7fff'8765'4321).bytes, size);
}

TEST_F(HeapBlocksTest, CallsWithoutTime_AreSpreadBetweenTimedOnes) {
  BeginChunk(1, 5000);
  Time(1, 2000);
  Came(1, 0x10, 8, 0xa, 0);
  Came(1, 0x20, 8, 0xa, 0);
  Came(1, 0x30, 8, 0xa, 0);
  Came(1, 0x40, 8, 0xa, 2400);
  blocks_.Finish();
  EXPECT_EQ(totals().widest_ticks, 400u);
  std::vector<uint64_t> times;
  for (const HeapBlocks::Sample& sample : blocks_.curve()) times.push_back(sample.ticks);
  // One interval of the curve is longer than all of these times, so only its highest level is kept: the last.
  EXPECT_THAT(times, testing::ElementsAre(2400));
  EXPECT_EQ(totals().peak_ticks, 2400u);
}

TEST_F(HeapBlocksTest, BlockReleasedAtOnceByItsThread_IsTemporary) {
  BeginChunk(1, 5000);
  for (int i = 0; i < 10; ++i) {
    Came(1, 0x10, 8, 0xa, 2000);
    Went(1, 0x10, 8, 0);
  }
  Came(1, 0x10, 8, 0xb, 0);
  Came(1, 0x20, 8, 0xb, 0);
  Went(1, 0x10, 8, 0);
  Went(1, 0x20, 8, 0);
  blocks_.Finish();
  EXPECT_EQ(totals().temporary, 10u);
  EXPECT_EQ(SiteAt(0xa).temporary, 10u);
  EXPECT_EQ(SiteAt(0xb).temporary, 0u);
}

// The launcher reads the chunks of threads one after the other: a later call may come first in the spool.
TEST_F(HeapBlocksTest, ThreadsOfAPassInAnyOrder_AreSortedByTime) {
  BeginChunk(2, 3000);
  Went(2, 0x10, 100, 2500);
  Came(2, 0x20, 7, 0xb, 2600);
  BeginChunk(1, 3000);
  Came(1, 0x10, 100, 0xa, 2400);
  blocks_.Finish();
  EXPECT_EQ(totals().ambiguous, 0u);
  EXPECT_EQ(totals().earlier, 0u);
  EXPECT_EQ(totals().peak_bytes, 100);
  EXPECT_EQ(totals().live_bytes, 7);
  EXPECT_EQ(SiteAt(0xa).live_blocks, 0u);
}

// Two calls are made during a pass: this pass reads the call of one thread, the next pass the call of the other.
TEST_F(HeapBlocksTest, CallDuringAPass_WaitsForTheNextPass) {
  BeginChunk(2, 3000);
  Went(2, 0x10, 100, 3500);
  BeginChunk(1, 4000);
  Came(1, 0x10, 100, 0xa, 3400);
  BeginChunk(1, 5000);
  Came(1, 0x30, 1, 0xa, 4500);
  blocks_.Finish();
  EXPECT_EQ(totals().ambiguous, 0u);
  EXPECT_EQ(totals().earlier, 0u);
  EXPECT_EQ(totals().live_bytes, 1);
}

// A thread fills chunk 5, then chunk 2, then chunk 7: the launcher reads them in the order 2, 5, 7.
TEST_F(HeapBlocksTest, ChunksOfAThread_AreReadInOrderOfTheirNumbers) {
  BeginFrame(1, 2200, 5, 0);
  blocks_.Time(2000);
  thread_ = 1;
  BeginFrame(1, 3000, 2, 0);
  blocks_.Time(2600);
  Went(1, 0x10, 100, 2700);
  BeginFrame(1, 3000, 5, 1);
  Came(1, 0x10, 100, 0xa, 2500);
  BeginFrame(1, 3000, 7, 0);
  blocks_.Time(2800);
  Came(1, 0x10, 50, 0xb, 0);
  blocks_.Finish();
  EXPECT_EQ(totals().earlier, 0u);
  EXPECT_EQ(totals().ambiguous, 0u);
  EXPECT_EQ(totals().temporary, 1u);
  EXPECT_EQ(totals().live_bytes, 50);
  EXPECT_EQ(totals().peak_ticks, 2500u);
}

// A thread goes from chunk 5 to chunk 7 while the launcher's pass is between these chunks.
TEST_F(HeapBlocksTest, EndOfAChunkReadAfterTheNextBegins_IsSorted) {
  thread_ = 1;
  BeginFrame(1, 3000, 5, 0);
  blocks_.Time(2900);
  Came(1, 0x10, 100, 0xa, 3010);
  BeginFrame(1, 3000, 7, 0);
  blocks_.Time(3030);
  Went(1, 0x20, 30, 3040);
  BeginFrame(1, 4000, 5, 2);
  Came(1, 0x20, 30, 0xb, 3020);
  BeginFrame(1, 4000, 7, 2);
  Came(1, 0x20, 8, 0xc, 0);
  blocks_.Finish();
  EXPECT_EQ(totals().earlier, 0u);
  EXPECT_EQ(totals().ambiguous, 0u);
  EXPECT_EQ(totals().live_bytes, 108);
  EXPECT_EQ(totals().peak_bytes, 130);
  EXPECT_EQ(totals().peak_ticks, 3020u);
}

TEST_F(HeapBlocksTest, ImpossibleOrder_IsPairedAndCounted) {
  BeginChunk(1, 5000);
  Came(1, 0x10, 100, 0xa, 2000);
  Time(2, 2000);
  Went(2, 0x10, 100, 0);  // estimated at 2100 of 2000..2200; really before 2050
  Came(1, 0x10, 60, 0xb, 2050);
  Time(2, 2200);
  blocks_.Finish();
  EXPECT_EQ(totals().ambiguous, 1u);
  EXPECT_EQ(totals().live_blocks, 1u);
  EXPECT_EQ(SiteAt(0xb).live_blocks, 1u) << "the one that came last is there";
  EXPECT_EQ(SiteAt(0xa).live_blocks, 0u);
  EXPECT_EQ(totals().live_bytes, 60);
}

TEST_F(HeapBlocksTest, ReleaseAheadOfItsBlock_IsPaired) {
  BeginChunk(1, 5000);
  Time(1, 2000);
  Came(1, 0x10, 100, 0xa, 0);  // estimated at 2100 of 2000..2200; really before 2050
  Time(1, 2200);
  Went(2, 0x10, 100, 2050);
  blocks_.Finish();
  EXPECT_EQ(totals().ambiguous, 1u);
  EXPECT_EQ(totals().earlier, 0u);
  EXPECT_EQ(totals().live_blocks, 0u);
  EXPECT_EQ(totals().live_bytes, 0);
}

TEST_F(HeapBlocksTest, BlocksFromBeforeTheWindow_AreNotAmbiguous) {
  BeginChunk(1, 3000);
  Time(2, 2000);
  Went(1, 0x10, 100, 2000);
  BeginChunk(1, 4000);
  Came(1, 0x50, 1, 0xa, 3500);
  BeginChunk(1, 5000);
  Came(1, 0x10, 100, 0xa, 4500);
  blocks_.Finish();
  EXPECT_EQ(totals().earlier, 1u);
  EXPECT_EQ(totals().ambiguous, 0u);
  EXPECT_EQ(totals().live_blocks, 2u);
  EXPECT_EQ(totals().live_bytes, 1);
}

TEST_F(HeapBlocksTest, FailedRealloc_RevokesItsRelease) {
  BeginChunk(1, 5000);
  Came(1, 0x10, 100, 0xa, 2000);
  Went(1, 0x10, 100, 0);
  Take(1, 0x10, 100, 0xb, 0, kRecordFailed);
  blocks_.Finish();
  EXPECT_EQ(totals().allocations, 1u);
  EXPECT_EQ(totals().releases, 0u);
  EXPECT_EQ(totals().live_blocks, 1u);
  EXPECT_EQ(totals().live_bytes, 100);
  EXPECT_EQ(totals().peak_bytes, 100);
}

TEST_F(HeapBlocksTest, CallsOutsideTheWindow_DoNotCount) {
  BeginChunk(1, 2 * kClose);
  Came(1, 0x10, 100, 0xa, kOpen - 1);
  Came(1, 0x20, 10, 0xa, kOpen);
  Came(1, 0x30, 1, 0xa, kClose - 1);
  Came(1, 0x40, 1000, 0xa, kClose);
  blocks_.Finish();
  EXPECT_EQ(totals().live_bytes, 11);
}

// A thread's last calls have no later timestamp: they were made before the window closed.
TEST_F(HeapBlocksTest, LastCallsWithoutTime_AreInTheWindow) {
  BeginChunk(1, 2 * kClose);
  Came(1, 0x10, 1, 0xa, kClose - 100);
  for (uint64_t i = 1; i < 16; ++i) Came(1, 0x10 + i * 16, 1, 0xa, 0);
  blocks_.Finish();
  EXPECT_EQ(totals().live_bytes, 16);
}

TEST_F(HeapBlocksTest, TimesOf48Bits_AreExtended) {
  const uint64_t wrap = kLow48 + 1;
  size_t room = 10;
  HeapBlocks blocks(wrap - 1000, wrap + 10'000, &room);
  blocks.BeginFrame({1, 1, 0, 1, 0, 1, 1, wrap + 5000});
  blocks.Time(wrap - 500);
  AllocationRecord record{};
  for (const uint64_t ticks : {wrap - 400, wrap - 100, wrap + 100, wrap + 90, wrap + 200}) {
    PackAllocation(&record, ticks & ~uint64_t{15}, 1, 0xa, ticks);
    blocks.Take(record);
  }
  blocks.Finish();
  EXPECT_EQ(blocks.totals().allocations, 5u);
  EXPECT_EQ(blocks.totals().peak_ticks, wrap + 200);
}

TEST_F(HeapBlocksTest, MoreBlocksThanRoom_AreCounted) {
  room_ = 3;
  BeginChunk(1, 5000);
  for (uint64_t i = 0; i < 10; ++i) Came(1, 0x10 * (i + 1), 5, 0xa, 2000 + i);
  for (uint64_t i = 0; i < 10; ++i) Went(1, 0x10 * (i + 1), 5, 3000 + i);
  blocks_.Finish();
  EXPECT_EQ(totals().not_followed, 7u);
  EXPECT_EQ(totals().earlier, 0u) << "nothing is known of them";
  EXPECT_EQ(totals().live_bytes, 0) << "sums need no room";
  EXPECT_EQ(totals().peak_bytes, 50);
  EXPECT_EQ(room_, 3u);
}

// Threads allocate and free blocks of one heap. The records are made like the library's and read like the launcher's.
class RandomHeap : public HeapBlocksTest, public testing::WithParamInterface<int> {};

TEST_P(RandomHeap, RandomCalls_TotalsEqualTheRealHeap) {
  const int stamp_every = GetParam();
  uint64_t seed = 88172645463325252ull;
  const auto random = [&](uint64_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % below;
  };
  struct Recorded {
    AllocationRecord record;
    uint64_t ticks;
  };
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kCalls = 200'000;
  std::vector<Recorded> of_thread[kThreads];
  int until_stamp[kThreads] = {};
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> live;  // address to size and site
  std::vector<uint64_t> free_addresses, used;
  for (uint64_t i = 1; i <= 500; ++i) free_addresses.push_back(i * 16);
  int64_t bytes = 0, peak = 0;
  uint64_t ticks = kOpen;
  for (uint64_t call = 0; call < kCalls; ++call) {
    ticks += 1 + random(20);
    const uint32_t thread = static_cast<uint32_t>(random(kThreads));
    const bool release = free_addresses.empty() || (!used.empty() && random(2) == 0);
    AllocationRecord record{};
    uint64_t address, size, site;
    if (release) {
      const size_t which = random(used.size());
      address = used[which];
      used[which] = used.back();
      used.pop_back();
      free_addresses.push_back(address);
      size = live[address].first;
      site = 0xf0;
      live.erase(address);
      bytes -= static_cast<int64_t>(size);
      record.tag.flags = kRecordRelease;
    } else {
      // Reuses the address that was freed last, as allocators do.
      address = free_addresses.back();
      free_addresses.pop_back();
      used.push_back(address);
      size = 8 + random(1000);
      site = 0xa0 + random(5);
      live[address] = {size, site};
      bytes += static_cast<int64_t>(size);
      peak = std::max(peak, bytes);
    }
    const bool stamped = until_stamp[thread]-- == 0;
    if (stamped) until_stamp[thread] = stamp_every - 1;
    PackAllocation(&record, address, size, site, stamped ? ticks : 0);
    of_thread[thread].push_back({record, ticks});
  }
  size_t read[kThreads] = {};
  for (uint64_t pass = kOpen; pass < ticks + 20'000; pass += 10'000) {
    // A pass takes some time: threads that it reads later have more records by then.
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      const uint64_t now = pass + thread * 500;
      if (read[thread] == of_thread[thread].size() || of_thread[thread][read[thread]].ticks > now) continue;
      BeginChunk(thread + 1, pass);
      for (; read[thread] < of_thread[thread].size() && of_thread[thread][read[thread]].ticks <= now; ++read[thread]) {
        blocks_.Take(of_thread[thread][read[thread]].record);
      }
    }
  }
  blocks_.Finish();
  EXPECT_EQ(totals().allocations + totals().releases, kCalls);
  EXPECT_EQ(totals().live_bytes, bytes);
  EXPECT_EQ(totals().live_blocks, live.size());
  EXPECT_EQ(totals().earlier, 0u);
  std::map<uint64_t, uint64_t> of_site;
  for (const auto& [address, block] : live) ++of_site[block.second];
  int64_t at_peak = 0;
  for (const HeapBlocks::Site& site : blocks_.sites()) {
    // A pair in the wrong order may attribute a block to the site of the earlier block.
    EXPECT_NEAR(static_cast<double>(site.live_blocks), static_cast<double>(of_site[site.address]),
                stamp_every == 1 ? 0 : 5)
        << site.address;
    at_peak += site.peak_bytes;
  }
  if (stamp_every == 1) {
    EXPECT_EQ(totals().ambiguous, 0u);
    EXPECT_EQ(totals().peak_bytes, peak);
    EXPECT_EQ(at_peak, peak);
  } else {
    EXPECT_GT(totals().ambiguous, 0u) << "this test is of such";
    EXPECT_NEAR(static_cast<double>(totals().peak_bytes), static_cast<double>(peak), 0.05 * static_cast<double>(peak));
  }
}
INSTANTIATE_TEST_SUITE_P(Stamps, RandomHeap, testing::Values(1, 16));

}  // namespace
}  // namespace tbprof
