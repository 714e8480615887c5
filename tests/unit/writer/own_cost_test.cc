// SPDX-License-Identifier: Apache-2.0
//
// The cost of recording, from counts made by hand.
#include "writer/convert/own_cost.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

class OwnCostTest : public testing::Test {
 protected:
  OwnCostTest() {
    ClockFact pair{};
    facts_.clock.Add(pair);  // a tick is a nanosecond
    EXPECT_TRUE(facts_.clock.Finish());
    session_.clock_cost_ns = 10;
    session_.record_cost_ns = 5;
    session_.allocation_cost_ns = 2;
    session_.page_cost_ns = 1000;
    timeline_.types = {{"wait", EventFamily::kLock, ObjectKind::kNone, ValueKind::kNone},
                       {"malloc", EventFamily::kMemory, ObjectKind::kNone, ValueKind::kNone},
                       {"cudaLaunchKernel", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kNone},
                       {"read", EventFamily::kIo, ObjectKind::kNone, ValueKind::kNone}};
    timeline_.processes.resize(1);
  }
  double Cost() const {
    return OwnCostNs({facts_, session_, processes_, open_ticks_, whole_run_, is_later_window_, samples_}, timeline_);
  }
  double CostOf(uint16_t type, uint64_t calls, uint64_t recorded) {
    timeline_.processes[0].operations = {{type, calls, recorded}};
    return Cost();
  }

  SpoolFacts facts_;
  SessionFacts session_;
  Timeline timeline_;
  std::map<Identity, uint32_t> processes_;
  uint64_t open_ticks_ = 1000;
  bool whole_run_ = false, is_later_window_ = false;
  uint64_t samples_ = 0;
};

TEST_F(OwnCostTest, NothingRecorded_CostsNothing) {
  EXPECT_EQ(Cost(), 0);
  timeline_.processes.clear();
  EXPECT_EQ(Cost(), 0);
}

TEST_F(OwnCostTest, CountedCall_CostsLessThanRecordedOne) {
  const double counted = CostOf(0, 100, 0), recorded = CostOf(0, 100, 100);
  EXPECT_GE(counted, 100 * 2 * session_.clock_cost_ns);
  EXPECT_GE(recorded, counted + 100 * session_.record_cost_ns);
  EXPECT_GT(CostOf(3, 100, 0), counted);  // a system call
}

TEST_F(OwnCostTest, CallsOfMemoryAndCuda_AreNotCountedHere) {
  EXPECT_EQ(CostOf(1, 100, 100), 0);
  EXPECT_EQ(CostOf(2, 100, 100), 0);
}

TEST_F(OwnCostTest, ObservingPyTorch_CountsOperationsThatAreRecorded) {
  timeline_.types.push_back({"aten::add", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone});
  timeline_.types.back().origin = RangeOrigin::kTorchOperation;
  const auto seconds = [&](uint16_t type, uint64_t calls, uint64_t recorded) {
    timeline_.processes[0].operations = {{type, calls, recorded}};
    SetObservingCosts(session_, &timeline_);
    return timeline_.processes[0].observing_seconds;
  };
  EXPECT_EQ(seconds(0, 1'000'000, 1'000'000), 0) << "a wait is none of PyTorch's operations";
  const double all = seconds(4, 1'000'000, 1'000'000);
  EXPECT_GT(all, 0.1);
  EXPECT_LT(all, 1);
  EXPECT_DOUBLE_EQ(seconds(4, 100'000'000, 1'000'000), all) << "the rest was sampled away";
}

TEST_F(OwnCostTest, PagesOfAnotherWindow_CountByTheShareOfRecords) {
  facts_.segments[1].slots = kPage / kSlotBytes * 10;
  facts_.segments[1].chunks_used = 1000;
  facts_.records = 100;
  timeline_.records = 25;
  EXPECT_EQ(Cost(), 10 * 1000 * 0.25);
  timeline_.records = 1000;  // more than the run has
  EXPECT_EQ(Cost(), 10 * 1000);
  timeline_.records = 0;
  facts_.records = 0;
  EXPECT_EQ(Cost(), 0);
  whole_run_ = true;
  EXPECT_EQ(Cost(), 10 * 1000);
}

TEST_F(OwnCostTest, PagesUsedTwice_AreTouchedOnce) {
  whole_run_ = true;
  facts_.segments[1].slots = kPage / kSlotBytes * 10'000'000;
  facts_.segments[1].chunks_used = 1;
  EXPECT_EQ(Cost(), 1000.0 * kChunkBytes / kPage);
}

TEST_F(OwnCostTest, DroppedParts_CountByTheChunksThatWereUsed) {
  whole_run_ = true;
  facts_.segments[1].slots = 0;
  facts_.segments[1].chunks_used = 2;
  EXPECT_EQ(Cost(), 0);
  facts_.dropped.push_back({});
  EXPECT_EQ(Cost(), 2000.0 * kChunkBytes / kPage);
}

TEST_F(OwnCostTest, StartBeforeALaterWindow_IsPaid) {
  const Identity process{1, 1};
  processes_[process] = 0;
  facts_.processes[process].start_ticks = 999;
  facts_.processes[process].last.start_cost = 50'000;
  EXPECT_GT(Cost(), 50'000);
  is_later_window_ = true;
  EXPECT_EQ(Cost(), 0);
  facts_.processes[process].start_ticks = 1000;
  EXPECT_GT(Cost(), 50'000);
}

TEST_F(OwnCostTest, ExactBlocks_CostAClockReadingForEveryFew) {
  timeline_.processes[0].exact_heap.allocations = 60;
  timeline_.processes[0].exact_heap.releases = 40;
  session_.malloc_stamp_every = 0;
  EXPECT_EQ(Cost(), 100 * session_.record_cost_ns);
  session_.malloc_stamp_every = 4;
  EXPECT_EQ(Cost(), 100 * (session_.record_cost_ns + session_.clock_cost_ns / 4));
}

}  // namespace
}  // namespace tbprof
