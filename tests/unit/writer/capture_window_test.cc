// SPDX-License-Identifier: Apache-2.0
//
// The borders of the window that a profile shows.
#include "writer/convert/capture_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kMs = 1'000'000;

class CaptureWindowTest : public testing::Test {
 protected:
  CaptureWindowTest() {
    const ClockFact pair{0, 0, 1'700'000'000'000'000'000};
    facts_.clock.Add(pair);  // a tick is a nanosecond
    EXPECT_TRUE(facts_.clock.Finish());
    facts_.window_found = true;
    facts_.open_ticks = 1000 * kMs;
    facts_.close_ticks = 5000 * kMs;
    facts_.last_ticks = 9000 * kMs;
  }
  CaptureWindow Find() { return FindCaptureWindow(session_, request_, &facts_, &timeline_); }

  SessionFacts session_;
  TimelineRequest request_;
  SpoolFacts facts_;
  Timeline timeline_;
};

TEST_F(CaptureWindowTest, NothingRecordedBehindOpening_IsStillADuration) {
  facts_.last_ticks = 10 * kMs;
  const CaptureWindow window = Find();
  EXPECT_EQ(window.open, 1000 * kMs);
  EXPECT_EQ(window.close, 1000 * kMs);
  EXPECT_GT(timeline_.duration_ps, 0);
}

TEST_F(CaptureWindowTest, CloseBehindTheEnd_IsTheEnd) {
  facts_.close_ticks = UINT64_MAX;
  facts_.ended = true;
  facts_.end = {4000 * kMs, 3, 0, 1'500'000, 250'000};
  const CaptureWindow window = Find();
  EXPECT_EQ(window.close, 4000 * kMs);
  EXPECT_TRUE(window.closed_by_end);
  EXPECT_EQ(timeline_.exit_code, 3);
  EXPECT_EQ(timeline_.user_cpu_seconds, 1.5);
}

TEST_F(CaptureWindowTest, EndSoonBehindTheClose_ClosesTheWindow) {
  facts_.ended = true;
  facts_.end.ticks = 5000 * kMs + 250 * kMs;
  EXPECT_TRUE(Find().closed_by_end);
  facts_.end.ticks += 1;
  EXPECT_FALSE(Find().closed_by_end);
}

TEST_F(CaptureWindowTest, SlidingWindow_ShowsItsEndAndCountsTheWholeRun) {
  facts_.length_ms = 1000;
  facts_.run_open_ticks = 200 * kMs;
  const CaptureWindow window = Find();
  EXPECT_EQ(window.open, 4000 * kMs);
  EXPECT_TRUE(window.whole_run);
  EXPECT_EQ(window.totals_open, 200 * kMs);
  EXPECT_EQ(timeline_.totals_ps, 4'800'000'000'000);
  EXPECT_EQ(facts_.clock.ToPs(4000 * kMs), 0);
}

TEST_F(CaptureWindowTest, SlidingWindowLongerThanTheRun_StartsAtItsOpening) {
  facts_.length_ms = UINT32_MAX;
  EXPECT_EQ(Find().open, 1000 * kMs);
}

TEST_F(CaptureWindowTest, DroppedPart_MovesTheOpeningBehindIt) {
  facts_.dropped.push_back({1, 0, 900 * kMs, 1500 * kMs, 10, 100});
  facts_.dropped.push_back({2, 0, 1500 * kMs, 1700 * kMs, 0, 100});   // had no records: nothing is missing
  facts_.dropped.push_back({3, 0, 6000 * kMs, 7000 * kMs, 10, 100});  // behind the window
  const CaptureWindow window = Find();
  EXPECT_EQ(window.open, 1500 * kMs);
  EXPECT_EQ(window.totals_open, 1500 * kMs);
  EXPECT_EQ(window.close, 5000 * kMs);
  EXPECT_THAT(window.cuts, ElementsAre(HasSubstr("the first 500 ms of this window are not shown")));
}

TEST_F(CaptureWindowTest, WholeWindowDropped_IsEmptyAndSaysSo) {
  facts_.dropped.push_back({1, 0, 900 * kMs, 8000 * kMs, 10, 100});
  const CaptureWindow window = Find();
  EXPECT_EQ(window.open, 5000 * kMs);
  EXPECT_EQ(window.close, 5000 * kMs);
  EXPECT_THAT(window.cuts, ElementsAre(HasSubstr("the first 7000 ms")));
}

TEST_F(CaptureWindowTest, GapOfFullSpool_EndsTheWindowBeforeIt) {
  facts_.gaps.push_back({3000 * kMs, 4000 * kMs, 7, GapCause::kLimit, 0});
  facts_.gaps.push_back({4500 * kMs, 4600 * kMs, 5, GapCause::kLimit, 0});
  const CaptureWindow window = Find();
  EXPECT_EQ(window.open, 1000 * kMs);
  EXPECT_EQ(window.close, 3000 * kMs);
  EXPECT_THAT(window.cuts, ElementsAre(HasSubstr("the last 2000 ms"), HasSubstr("7 records")));
  EXPECT_EQ(timeline_.records_not_kept, 12u);
}

TEST_F(CaptureWindowTest, GapSoonBehindTheClose_MissesRecordsOfTheWindow) {
  facts_.gaps.push_back({5000 * kMs + 250 * kMs, 6000 * kMs, 7, GapCause::kSlowDisk, 0});
  facts_.gaps.push_back({5000 * kMs + 251 * kMs, 6000 * kMs, 100, GapCause::kSlowDisk, 0});
  const CaptureWindow window = Find();
  EXPECT_EQ(window.close, 5000 * kMs);
  EXPECT_THAT(window.cuts, ElementsAre(HasSubstr("7 records are missing between 4000 ms and 4000 ms")));
  EXPECT_EQ(timeline_.records_not_kept, 7u);
}

TEST_F(CaptureWindowTest, RecordsOfWindow_AreDrainedSoonBehindIt) {
  EXPECT_EQ(Find().drained, 5250 * kMs);
  request_.part_to_ns = 1000 * kMs;
  EXPECT_EQ(Find().drained, 2250 * kMs);
  facts_.close_ticks = UINT64_MAX;
  request_.part_to_ns = 0;
  EXPECT_EQ(Find().drained, UINT64_MAX);
}

TEST_F(CaptureWindowTest, GapBeforeTheOpening_IsOfNoConcern) {
  facts_.gaps.push_back({10 * kMs, 1000 * kMs - 1, 7, GapCause::kSlowDisk, 0});
  EXPECT_THAT(Find().cuts, IsEmpty());
  EXPECT_EQ(timeline_.records_not_kept, 0u);
}

TEST_F(CaptureWindowTest, PartOfWindow_StaysWithinIt) {
  request_.part_from_ns = 1000 * kMs;
  request_.part_to_ns = 2000 * kMs;
  CaptureWindow window = Find();
  EXPECT_EQ(window.open, 2000 * kMs);
  EXPECT_EQ(window.close, 3000 * kMs);
  request_.part_from_ns = 60'000 * kMs;
  request_.part_to_ns = 70'000 * kMs;
  window = Find();
  EXPECT_EQ(window.open, 5000 * kMs);
  EXPECT_EQ(window.close, 5000 * kMs);
}

TEST_F(CaptureWindowTest, AgreedStart_WarnsFromATenthOfASecondOn) {
  const uint64_t open_unix_ns = 1'700'000'000'000'000'000 + 1000 * kMs;
  request_.agreed_start_unix_ns = open_unix_ns - 100 * kMs + 1;
  Find();
  EXPECT_EQ(timeline_.after_agreed_start_ns, 100 * kMs - 1);
  EXPECT_THAT(timeline_.warnings, IsEmpty());
  request_.agreed_start_unix_ns -= 1;
  Find();
  EXPECT_THAT(timeline_.warnings, ElementsAre(HasSubstr(kBeganLate)));
}

TEST_F(CaptureWindowTest, AgreedStartFarAway_IsAClockThatIsWrong) {
  request_.agreed_start_unix_ns = 1;
  Find();
  EXPECT_EQ(timeline_.after_agreed_start_ns, 0u);
  EXPECT_THAT(timeline_.warnings, IsEmpty());
}

TEST_F(CaptureWindowTest, NeverOpened_BeginsWhereTheFirstProcessWasSeen) {
  facts_.window_found = false;
  facts_.segments[1].fact.seen_ticks = 3000 * kMs;
  facts_.close_ticks = UINT64_MAX;
  const CaptureWindow window = Find();
  EXPECT_EQ(window.open, 3000 * kMs);
  EXPECT_EQ(window.close, 9000 * kMs);
}

}  // namespace
}  // namespace tbprof
