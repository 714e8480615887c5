// SPDX-License-Identifier: Apache-2.0
//
// Which events of host lines the budget keeps, and how raw events are converted to the timeline's events.
#include "writer/convert/host_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::SizeIs;

class HostEventsTest : public testing::Test {
 protected:
  HostEventsTest() {
    ClockFact pair{};
    facts_.clock.Add(pair);  // a tick is a nanosecond
    EXPECT_TRUE(facts_.clock.Finish());
    timeline_.duration_ps = 1'000'000'000'000;
    timeline_.types = {
        {"wait", EventFamily::kLock, ObjectKind::kNone, ValueKind::kNone},
        {"cudaLaunchKernel", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation},
        {"aten::mm", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTorchOperation},
        {"iteration 1", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone}};
    timeline_.threads.resize(2);
    events_.Begin(MostEvents(0) * kBytesPerEvent);
  }

  static RawEvent At(uint64_t start, uint64_t duration, uint16_t type = kWait) {
    RawEvent event;
    event.start = start;
    event.duration = duration;
    event.type = type;
    return event;
  }

  static constexpr uint16_t kWait = 0, kCall = 1, kOperation = 2, kStep = 3;
  SpoolFacts facts_;
  Timeline timeline_;
  Conservation conservation_{&facts_};
  HostEvents events_{&facts_, &conservation_, &timeline_};
};

TEST_F(HostEventsTest, TicksOfLine_BecomePicosecondsInOrder) {
  events_.Keep(0, At(30, 5));
  events_.Keep(0, At(10, 10));
  events_.Keep(0, At(10, 40));
  events_.Finish({});
  ASSERT_THAT(timeline_.threads[0].events, SizeIs(3));
  EXPECT_THAT(timeline_.threads[0].events,
              ElementsAre(Field(&Event::duration_ps, 40'000), Field(&Event::duration_ps, 10'000),
                          Field(&Event::duration_ps, 5'000)));
  EXPECT_THAT(timeline_.threads[1].events, SizeIs(0));
}

TEST_F(HostEventsTest, EventThatSticksOut_IsCutToItsParent) {
  events_.Keep(0, At(0, 10'000));
  events_.Keep(0, At(9'000, 1'500));  // overlaps by less than the jitter of the clock
  events_.Keep(0, At(20'000, 10'000));
  events_.Keep(0, At(25'000, 10'000));  // overlaps by more
  events_.Finish({});
  const std::vector<Event>& events = timeline_.threads[0].events;
  EXPECT_EQ(events[1].duration_ps, 1'000'000);
  EXPECT_EQ(events[1].flags, 0);
  EXPECT_EQ(events[3].duration_ps, 5'000'000);
  EXPECT_EQ(events[3].flags, Event::kClippedAtEnd);
}

TEST_F(HostEventsTest, SitesAndShapes_BecomeCallSites) {
  RawEvent wait = At(0, 10), unknown = At(20, 10), operation = At(40, 10, kOperation);
  wait.site = 1;
  unknown.site = 9;
  operation.shapes = 77;
  events_.Keep(0, wait);
  events_.Keep(0, unknown);
  events_.Keep(0, operation);
  events_.Finish({0, 42});
  EXPECT_THAT(timeline_.threads[0].events,
              ElementsAre(Field(&Event::call_site, 42), Field(&Event::call_site, 0), Field(&Event::call_site, 77)));
}

TEST_F(HostEventsTest, MoreThanBudget_KeepsLongestOfAllLines) {
  constexpr uint64_t kCount = 5000;
  for (uint64_t i = 0; i < kCount; ++i) events_.Keep(i % 2, At(i * 10'000, i + 1));
  EXPECT_LE(events_.Bytes(), MostEvents(0) * kBytesPerEvent);
  EXPECT_TRUE(events_.CutsHost());
  EXPECT_FALSE(events_.CutsGpu());
  events_.Finish({});
  const size_t kept = timeline_.threads[0].events.size() + timeline_.threads[1].events.size();
  EXPECT_EQ(timeline_.events_over_budget, kCount - kept);
  EXPECT_GT(kept, 500u);
  for (const Thread& thread : timeline_.threads) {
    EXPECT_THAT(thread.events, Each(Field(&Event::duration_ps, testing::Ge(timeline_.shortest_shown_ps))));
    EXPECT_EQ(thread.events.back().duration_ps / 1000,
              static_cast<int64_t>(&thread == &timeline_.threads[0] ? 4999 : 5000));
  }
}

TEST_F(HostEventsTest, HostSpans_AreCutBeforeCallsOfCuda) {
  for (uint64_t i = 0; i < 300; ++i) events_.Keep(0, At(i * 1000, 1, kCall));
  for (uint64_t i = 0; i < 5000; ++i) events_.Keep(1, At(i * 1000, 500 + i % 400));
  events_.Finish({});
  EXPECT_THAT(timeline_.threads[0].events, SizeIs(300));
}

TEST_F(HostEventsTest, ShortStep_StaysWhereLongerWaitsAreCut) {
  events_.MayBeSteps(kStep);
  events_.Keep(0, At(5, 1, kStep));
  for (uint64_t i = 0; i < 5000; ++i) events_.Keep(1, At(i * 1000, 500 + i % 400));
  events_.Finish({});
  EXPECT_THAT(timeline_.threads[0].events, SizeIs(1));
}

TEST_F(HostEventsTest, CutWaitsOfMainThread_AreRemembered) {
  timeline_.threads[0].is_main = true;
  for (uint64_t i = 0; i < 5000; ++i) events_.Keep(i % 2, At(i * 1000, 1 + i % 400));
  events_.Finish({});
  EXPECT_EQ(timeline_.threads[0].cut_waits.size() + timeline_.threads[0].events.size(), 2500u);
  EXPECT_TRUE(timeline_.threads[1].cut_waits.empty());
}

TEST_F(HostEventsTest, CutGpuCallsOfMainThread_AreRemembered) {
  timeline_.threads[0].is_main = true;
  for (uint64_t i = 0; i < 5000; ++i) events_.Keep(i % 2, At(i * 1000, 1 + i % 400, kCall));
  events_.Finish({});
  EXPECT_LT(timeline_.threads[0].events.size(), 2500u);
  EXPECT_EQ(timeline_.threads[0].cut_waits.size() + timeline_.threads[0].events.size(), 2500u);
  EXPECT_TRUE(timeline_.threads[1].cut_waits.empty());
}

TEST_F(HostEventsTest, WorkOfDevices_GoesLast) {
  timeline_.gpu_streams.resize(1);
  GpuEvent kernel;
  kernel.duration_ps = 1;  // ticks, until GpuBuilder::FinishTimes
  for (int i = 0; i < 400; ++i) events_.KeepOnDevice(0, kernel);
  for (uint64_t i = 0; i < 5000; ++i) events_.Keep(1, At(i * 1000, 500 + i % 400));
  EXPECT_THAT(timeline_.gpu_streams[0].events, SizeIs(400));
  for (int i = 0; i < 5000; ++i) {
    kernel.duration_ps = 1 + i % 300;
    kernel.start_ps = i;
    events_.KeepOnDevice(0, kernel);
  }
  EXPECT_LT(timeline_.gpu_streams[0].events.size(), 1000u);
  EXPECT_TRUE(events_.CutsGpu());
  EXPECT_LE(events_.Bytes(), MostEvents(0) * kBytesPerEvent);
}

// A loop of a long and a short wait: of a part of the time, the short ones are kept, too.
TEST_F(HostEventsTest, FullDetail_KeepsAllOfAPart) {
  constexpr uint64_t kTurns = 5000;
  events_.Begin(MostEvents(0) * kBytesPerEvent, 0, kTurns * 1000, kTurns * 1000 / 3 * 2);
  for (uint64_t i = 0; i < kTurns; ++i) {
    events_.Keep(0, At(i * 1000, 800 + i % 50));
    events_.Keep(1, At(i * 1000 + 100, i % 10 == 0 ? 0 : 5));  // some are instants
  }
  EXPECT_LE(events_.Bytes(), MostEvents(0) * kBytesPerEvent);
  events_.Finish({});
  const TimeSpan& detail = timeline_.full_detail;
  ASSERT_GT(detail.end_ps, detail.start_ps);
  EXPECT_LT(detail.start_ps, static_cast<int64_t>(kTurns) * 1'000'000 / 3 * 2);
  EXPECT_GT(detail.end_ps, static_cast<int64_t>(kTurns) * 1'000'000 / 3 * 2);
  const auto turns = static_cast<size_t>((detail.end_ps - detail.start_ps) / 1'000'000);
  EXPECT_GE(turns, 50u);
  for (const Thread& thread : timeline_.threads) {
    const auto in_detail = std::ranges::count_if(thread.events, [&](const Event& event) {
      return event.start_ps >= detail.start_ps && event.start_ps < detail.end_ps;
    });
    EXPECT_NEAR(static_cast<double>(in_detail), static_cast<double>(turns), 1.0);
    for (const Event& event : thread.events) {
      const bool is_in = event.start_ps >= detail.start_ps && event.start_ps < detail.end_ps;
      EXPECT_TRUE(is_in || event.duration_ps == 0 || event.duration_ps >= timeline_.shortest_shown_ps);
    }
  }
  // Long waits are kept elsewhere as well.
  EXPECT_GT(timeline_.threads[0].events.size(), turns * 5 / 4);
  EXPECT_EQ(timeline_.events_over_budget + timeline_.threads[0].events.size() + timeline_.threads[1].events.size(),
            2 * kTurns);
}

TEST_F(HostEventsTest, FullDetail_HoldsWorkOfDevicesAndItsCalls) {
  constexpr uint64_t kTurns = 4000;
  events_.Begin(MostEvents(0) * kBytesPerEvent, 0, kTurns * 1000, kTurns * 1000 / 3 * 2);
  timeline_.gpu_streams.resize(1);
  for (uint64_t i = 0; i < kTurns; ++i) {
    events_.Keep(0, At(i * 1000, 3 + i % 5, kCall));
    GpuEvent kernel;
    kernel.start_ps = static_cast<int64_t>(i * 1000 + 10);  // ticks, until GpuBuilder::FinishTimes
    kernel.duration_ps = static_cast<int64_t>(20 + i % 400);
    events_.KeepOnDevice(0, kernel);
  }
  EXPECT_TRUE(events_.CutsGpu());
  EXPECT_LE(events_.Bytes(), MostEvents(0) * kBytesPerEvent);
  events_.Finish({});
  const TimeSpan& detail = timeline_.full_detail;
  const auto turns = static_cast<double>(detail.end_ps - detail.start_ps) / 1e6;
  EXPECT_GE(turns, 50);
  const auto& calls = timeline_.threads[0].events;
  const auto& kernels = timeline_.gpu_streams[0].events;
  EXPECT_NEAR(
      static_cast<double>(std::ranges::count_if(
          calls, [&](const Event& call) { return call.start_ps >= detail.start_ps && call.start_ps < detail.end_ps; })),
      turns, 1);
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(kernels,
                                                        [&](const GpuEvent& kernel) {
                                                          return kernel.start_ps * 1000 >= detail.start_ps &&
                                                                 kernel.start_ps * 1000 < detail.end_ps;
                                                        })),
              turns, 1);
}

// Steps have their share of the budget, whatever it leaves.
TEST_F(HostEventsTest, FullDetailWithManySteps_StaysWithinTheBudget) {
  events_.Begin(MostEvents(0) * kBytesPerEvent, 0, 5'000'000, 3'000'000);
  events_.MayBeSteps(kStep);
  for (uint64_t i = 0; i < 5000; ++i) {
    events_.Keep(0, At(i * 1000, 100, kStep));
    events_.Keep(1, At(i * 1000, 0));
    events_.Keep(1, At(i * 1000, 100 + i % 400));
    EXPECT_LE(events_.Bytes(), MostEvents(0) * kBytesPerEvent);
  }
}

TEST_F(HostEventsTest, NothingCut_AllIsFullDetail) {
  events_.Begin(MostEvents(0) * kBytesPerEvent, 0, 5'000'000, 3'000'000);
  for (uint64_t i = 0; i < 100; ++i) events_.Keep(0, At(i * 1000, 100));
  events_.Finish({});
  EXPECT_EQ(timeline_.full_detail.start_ps, 0);
  EXPECT_EQ(timeline_.full_detail.end_ps, timeline_.duration_ps);
}

TEST_F(HostEventsTest, ValueOfCall_CountsInItsBytes) {
  RawEvent call = At(0, 10, kCall);
  events_.Keep(0, call);
  events_.SetValue(0, 0, 1u << 30);
  const uint32_t with = events_.Of(0)[0].bytes;
  events_.SetValue(0, 0, 0);
  EXPECT_LE(events_.Of(0)[0].bytes, with);
  events_.SetValue(0, 0, 7);
  events_.Finish({});
  EXPECT_EQ(timeline_.threads[0].events[0].value, 7);
}

}  // namespace
}  // namespace tbprof
