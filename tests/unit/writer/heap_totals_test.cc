// SPDX-License-Identifier: Apache-2.0
//
// Heaps of processes, from counters and from blocks made by hand.
#include "writer/convert/heap_totals.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/unit/writer/host_fixture.h"

namespace tbprof {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class HeapTotalsTest : public HostFixture {
 protected:
  static constexpr Identity kProcess{1, 1}, kThread{1, 1};

  HeapTotalsTest() {
    AddProcess(kProcess, 100, 2000);
    AddThread(kThread, 1, 100, 2000).has_last = true;
  }
  // One allocation of `size` bytes at 3000.
  void TakeBlock(uint64_t size) {
    AllocationRecord record{};
    record.tag = {1, RecordKind::kAllocation, 0, static_cast<uint16_t>(sizeof(record) / kSlotBytes), 0};
    PackAllocation(&record, 0x5000, size, 0x100, 3000);
    ChunkFact chunk{};
    chunk.slots = record.tag.slots;
    chunk.process_serial = chunk.thread_serial = 1;
    std::string payload(reinterpret_cast<const char*>(&chunk), sizeof(chunk));
    payload.append(reinterpret_cast<const char*>(&record), sizeof(record));
    Frame frame{};
    frame.payload = payload;
    heap_.TakeBlocks(frame, chunk, kProcess);
  }
  const ExactHeap& Exact(bool is_own_window = true) {
    heap_.AddExactHeaps(is_own_window);
    return timeline_.processes[0].exact_heap;
  }
  ThreadFacts& thread() { return facts_.threads.at(kThread); }

  PythonStacks stacks_{&timeline_};
  PythonExact python_{&facts_, &stacks_, &timeline_};
  HeapTotals heap_{&window_, &model_, &modules_, &facts_, &timeline_, &python_};
};

TEST_F(HeapTotalsTest, CountersOfWindow_AreDifferences) {
  thread().first.allocations = 10;
  thread().last.allocations = 25;
  thread().first.freed_bytes = 500;
  thread().last.freed_bytes = 700;
  facts_.processes.at(kProcess).last.late_allocations = 3;
  Build();
  heap_.AddAllocatorTotals(&types_, &totals_);
  EXPECT_EQ(timeline_.processes[0].allocator.allocations, 18u);
  EXPECT_EQ(timeline_.processes[0].allocator.freed_bytes, 200u);
}

TEST_F(HeapTotalsTest, CountersThatRunBackwards_CountNothing) {
  thread().first.allocations = UINT64_MAX;
  thread().last.allocations = 1;
  thread().first_counts[0] = {0, 0, 9, 900};
  thread().last_counts[0] = {0, 0, 5, 100};
  AddOperation(1, "read", kFamilyIo);
  Build();
  heap_.AddAllocatorTotals(&types_, &totals_);
  EXPECT_EQ(timeline_.processes[0].allocator.allocations, 0u);
  totals_.Finish(window_);
  EXPECT_THAT(timeline_.processes[0].operations, IsEmpty());
}

TEST_F(HeapTotalsTest, CountedCalls_AreThoseOfTheWindow) {
  AddOperation(1, "read", kFamilyIo);
  thread().first_counts[0] = {0, 0, 5, 100};
  thread().last_counts[0] = {0, 0, 9, 900};
  thread().last_counts[77] = {77, 0, 9, 900};  // no such operation
  Build();
  heap_.AddAllocatorTotals(&types_, &totals_);
  totals_.Finish(window_);
  ASSERT_THAT(timeline_.processes[0].operations, SizeIs(1));
  EXPECT_EQ(timeline_.processes[0].operations[0].calls, 4u);
  EXPECT_EQ(timeline_.processes[0].operations[0].total_ps, 800'000);
}

TEST_F(HeapTotalsTest, BlockOfWholeProcess_IsLiveAndNothingIsLost) {
  Build();
  TakeBlock(4096);
  const ExactHeap& heap = Exact();
  EXPECT_TRUE(heap.recorded);
  EXPECT_EQ(heap.lost, 0u);
  EXPECT_EQ(heap.live_bytes, 4096);
  ASSERT_THAT(heap.sites, SizeIs(1));
  EXPECT_EQ(heap.sites[0].bytes, 4096u);
  EXPECT_THAT(timeline_.warnings, IsEmpty());
}

TEST_F(HeapTotalsTest, DroppedRecords_MakeTheTableIncomplete) {
  thread().first.dropped[0] = 2;
  thread().last.dropped[0] = 5;
  thread().last.allocations = 100;
  Build();
  TakeBlock(4096);
  EXPECT_EQ(Exact(/*is_own_window=*/false).lost, 3u);
  EXPECT_THAT(timeline_.warnings, testing::ElementsAre(HasSubstr("at least 3 records")));
}

TEST_F(HeapTotalsTest, ProcessRecordedFromItsStart_LosesWhatItCounted) {
  thread().last.dropped[0] = 3;
  thread().last.allocations = 100;
  Build();
  TakeBlock(4096);
  EXPECT_EQ(Exact(/*is_own_window=*/true).lost, 99u);
}

TEST_F(HeapTotalsTest, GapInWindow_MakesTheTableIncomplete) {
  facts_.gaps.push_back({2500, 2600, 7, GapCause::kSlowDisk, 0});
  Build();
  TakeBlock(4096);
  EXPECT_EQ(Exact().lost, 7u);
}

TEST_F(HeapTotalsTest, GapBeforeWindow_LosesNothing) {
  facts_.gaps.push_back({10, kOpen - 1, 7, GapCause::kSlowDisk, 0});
  Build();
  TakeBlock(4096);
  EXPECT_EQ(Exact().lost, 0u);
}

// The gap lies behind the window, but the drain lags: records of the window may be missing.
TEST_F(HeapTotalsTest, GapSoonBehindWindow_MakesTheTableIncomplete) {
  window_.drained = kClose + 500;
  facts_.gaps.push_back({kClose + 500, kClose + 600, 7, GapCause::kSlowDisk, 0});
  facts_.gaps.push_back({kClose + 501, kClose + 600, 100, GapCause::kSlowDisk, 0});
  Build();
  TakeBlock(4096);
  EXPECT_EQ(Exact().lost, 7u);
}

TEST_F(HeapTotalsTest, Looks_AreShownWithinTheWindow) {
  thread().last.allocations = 1;
  facts_.processes.at(kProcess).counters = {{3000, 1, 0, 100}, {4000, 1, 0, 900}, {kClose + 1, 1, 0, 5000}};
  Build();
  heap_.AddAllocatorTotals(&types_, &totals_);
  heap_.AddCounters();
  ASSERT_THAT(timeline_.counters, SizeIs(1));
  const std::vector<CounterSample>& samples = timeline_.counters[0].samples;
  ASSERT_GE(samples.size(), 2u);
  EXPECT_EQ(samples[0].time_ps, 2'000'000);
  double highest = 0;
  for (const CounterSample& sample : samples) {
    EXPECT_LE(sample.time_ps, timeline_.duration_ps);
    highest = std::max(highest, sample.value);
  }
  EXPECT_EQ(highest, 900);
}

}  // namespace
}  // namespace tbprof
