// SPDX-License-Identifier: Apache-2.0
//
// Totals of operations and of places in the code.
#include "writer/convert/call_totals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

class CallTotalsTest : public testing::Test {
 protected:
  CallTotalsTest() {
    ClockFact pair{};
    facts_.clock.Add(pair);  // a tick is a nanosecond
    EXPECT_TRUE(facts_.clock.Finish());
    timeline_.duration_ps = 1'000'000'000;
    timeline_.types = {
        {"wait", EventFamily::kLock, ObjectKind::kNone, ValueKind::kNone},
        {"malloc", EventFamily::kMemory, ObjectKind::kNone, ValueKind::kNone},
        {"aten::mm", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTorchOperation}};
    timeline_.processes.resize(2);
    window_.close = 1'000'000;
  }

  static constexpr Identity kProcess{1, 1}, kChild{1, 2};
  static constexpr uint16_t kWait = 0, kMalloc = 1, kOperation = 2;
  SpoolFacts facts_;
  Timeline timeline_;
  CaptureWindow window_;
  ProcessModules modules_{&facts_, &timeline_.strings};
  CallTotals totals_{&facts_, &modules_, &timeline_};
};

TEST_F(CallTotalsTest, CallsOfOneOperation_AreSummedByProcess) {
  totals_.Count(kProcess, 0, kWait, 0x100, {.ticks = 5, .longest = 5});
  totals_.Count(kProcess, 0, kWait, 0x200, {.ticks = 7, .longest = 7});
  totals_.Count(kChild, 1, kWait, 0x100, {.ticks = 100, .longest = 100});
  totals_.Finish(window_);
  ASSERT_EQ(timeline_.processes[0].operations.size(), 1u);
  const OperationTotal& total = timeline_.processes[0].operations[0];
  EXPECT_EQ(total.calls, 2u);
  EXPECT_EQ(total.recorded, 2u);
  EXPECT_EQ(total.total_ps, 12'000);
  EXPECT_EQ(total.longest_ps, 7'000);
  EXPECT_EQ(timeline_.processes[1].operations[0].total_ps, 100'000);
}

TEST_F(CallTotalsTest, CallsWithoutRecord_CountAsCallsOnly) {
  totals_.Count(kProcess, 0, kWait, 0, {.ticks = 5, .longest = 5});
  totals_.CountUnrecorded(0, kWait, {.count = 10, .ticks = 20});
  totals_.Finish(window_);
  const OperationTotal& total = timeline_.processes[0].operations[0];
  EXPECT_EQ(total.calls, 11u);
  EXPECT_EQ(total.recorded, 1u);
  EXPECT_EQ(total.total_ps, 25'000);
}

TEST_F(CallTotalsTest, ProcessNotShown_HasSitesButNoTotals) {
  EXPECT_NE(totals_.Count(kProcess, kNoProcess, kWait, 0x100, {.ticks = 5, .longest = 5}), 0u);
  totals_.NameSites();
  totals_.Finish(window_);
  EXPECT_TRUE(timeline_.processes[0].operations.empty());
  ASSERT_EQ(timeline_.wait_sites.size(), 1u);
  EXPECT_EQ(timeline_.wait_sites[0].calls, 1u);
}

TEST_F(CallTotalsTest, SamePlaceInManyOrders_KeepsItsNumber) {
  const uint32_t first = totals_.Count(kProcess, 0, kWait, 0x100, {});
  // More places than the cache has slots, so that some share a slot with the first.
  for (uint64_t address = 0x101; address < 0x2000; ++address) {
    EXPECT_NE(totals_.Count(kProcess, 0, kWait, address, {}), first);
  }
  EXPECT_EQ(totals_.Count(kProcess, 0, kWait, 0x100, {}), first);
  EXPECT_NE(totals_.Count(kProcess, 0, kMalloc, 0x100, {}), first);
  EXPECT_EQ(totals_.SiteOf(kProcess, kWait, 0x100), first);
  EXPECT_EQ(totals_.SiteOf(kProcess, kWait, 0), 0u);
}

TEST_F(CallTotalsTest, SitesOfOneName_AreMergedAndMemoryLeftOut) {
  // Without a module the name of a place is its address.
  totals_.Count(kProcess, 0, kWait, 0x100, {.ticks = 5, .longest = 5});
  totals_.Count(kChild, 1, kWait, 0x100, {.ticks = 9, .longest = 9});
  totals_.Count(kProcess, 0, kWait, 0x300, {.ticks = 1, .longest = 1});
  totals_.Count(kProcess, 0, kMalloc, 0x400, {.ticks = 50, .longest = 50});
  const std::vector<StringId> names = totals_.NameSites();
  ASSERT_EQ(timeline_.wait_sites.size(), 2u);
  EXPECT_EQ(timeline_.wait_sites[0].total_ps, 14'000);
  EXPECT_EQ(timeline_.wait_sites[0].longest_ps, 9'000);
  EXPECT_EQ(timeline_.wait_sites[0].calls, 2u);
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(names[1], names[2]);
}

TEST_F(CallTotalsTest, HostileTicks_Saturate) {
  totals_.Count(kProcess, 0, kWait, 0x100, {.ticks = UINT64_MAX, .longest = UINT64_MAX});
  totals_.Count(kProcess, 0, kWait, 0x100, {.ticks = UINT64_MAX, .longest = UINT64_MAX});
  totals_.NameSites();
  totals_.Finish(window_);
  EXPECT_GT(timeline_.processes[0].operations[0].total_ps, 0);
  EXPECT_GT(timeline_.wait_sites[0].total_ps, 0);
}

TEST_F(CallTotalsTest, TorchWorkThatIsAllRecorded_HasSelfTimes) {
  totals_.Count(kProcess, 0, kOperation, 0, {.ticks = 100, .longest = 100});
  totals_.CountTorch(0, {}, {kOperation, 10, 100, 60});
  totals_.Finish(window_);
  const OperationTotal& total = timeline_.processes[0].operations[0];
  EXPECT_EQ(total.self_ps, 60'000);
  EXPECT_FALSE(total.estimated);
  EXPECT_EQ(timeline_.processes[0].torch.recorded, 1u);
}

TEST_F(CallTotalsTest, EquallyLongOperations_AreOrderedByType) {
  for (uint16_t type : {kOperation, kWait, kMalloc}) totals_.Count(kProcess, 0, type, 0, {.ticks = 5, .longest = 5});
  totals_.Finish(window_);
  for (uint16_t i = 0; i < 3; ++i) EXPECT_EQ(timeline_.processes[0].operations[i].type, i);
}

}  // namespace
}  // namespace tbprof
