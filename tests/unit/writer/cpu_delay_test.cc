// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/cpu_delay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;

// Ten steps of 100 ms from 1 s on; the thread's counts at 1 s and 2 s.
Timeline Steps(int64_t delay_ps) {
  Timeline timeline;
  timeline.duration_ps = 3000 * kMs;
  timeline.threads.resize(1);
  timeline.threads[0].is_main = true;
  for (int i = 0; i < 10; ++i) timeline.steps.push_back({(1000 + i * 100) * kMs, (1100 + i * 100) * kMs, i, "step", 0});
  timeline.usage.push_back({0, {{0, 0, 0}, {1000 * kMs, 0, 0}, {2000 * kMs, 0, delay_ps}, {3000 * kMs, 0, delay_ps}}});
  return timeline;
}

TEST(CpuDelay, ShareIsOfTheRegularStepsAlone) {
  Timeline timeline = Steps(300 * kMs);
  EXPECT_DOUBLE_EQ(DelayShareOfSteps(timeline), 0.3);
  timeline.steps.push_back({2000 * kMs, 3000 * kMs, 10, "pause", 0, /*is_regular=*/false});
  EXPECT_DOUBLE_EQ(DelayShareOfSteps(timeline), 0.3);
}

TEST(CpuDelay, WithoutCountsOrSteps_IsNotKnown) {
  Timeline timeline = Steps(300 * kMs);
  timeline.usage.clear();
  EXPECT_EQ(DelayShareOfSteps(timeline), 0);
  EXPECT_EQ(DelayShareOfSteps({}), 0);
  AddCpuDelayTrack(&timeline);
  EXPECT_TRUE(timeline.counters.empty());
}

TEST(CpuDelay, TrackHasThePercentOfEachInterval) {
  Timeline timeline = Steps(300 * kMs);
  AddCpuDelayTrack(&timeline);
  ASSERT_EQ(timeline.counters.size(), 1u);
  ASSERT_EQ(timeline.counters[0].samples.size(), 3u);
  EXPECT_EQ(timeline.counters[0].samples[0].value, 0);
  EXPECT_EQ(timeline.counters[0].samples[1].time_ps, 1000 * kMs);
  EXPECT_DOUBLE_EQ(timeline.counters[0].samples[1].value, 30);
  EXPECT_EQ(timeline.counters[0].samples[2].value, 0);
}

TEST(CpuDelay, LittleDelay_HasNoTrack) {
  Timeline timeline = Steps(40 * kMs);
  AddCpuDelayTrack(&timeline);
  EXPECT_TRUE(timeline.counters.empty());
}

}  // namespace
}  // namespace tbprof
