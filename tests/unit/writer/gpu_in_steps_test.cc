// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_in_steps.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;

Step At(int64_t start_ms, int64_t end_ms, bool regular = true) {
  Step step;
  step.start_ps = start_ms * kMs;
  step.end_ps = end_ms * kMs;
  step.is_regular = regular;
  return step;
}

GpuEvent Work(int64_t start_ms, int64_t end_ms) {
  GpuEvent event{};
  event.start_ps = start_ms * kMs;
  event.duration_ps = (end_ms - start_ms) * kMs;
  return event;
}

// Two regular steps of 10 ms behind a slow first one; a GPU with two streams.
Timeline TwoSteps() {
  Timeline timeline;
  timeline.step_source = StepSource::kMarked;
  timeline.steps = {At(0, 100, false), At(100, 110), At(110, 120)};
  timeline.processes.resize(1);
  timeline.gpu_devices.resize(2);
  timeline.gpu_streams.resize(2);
  timeline.gpu_streams[0].events = {Work(10, 60), Work(102, 106), Work(108, 112)};
  timeline.gpu_streams[1].events = {Work(104, 107), Work(119, 130)};
  return timeline;
}

TEST(GpuInSteps, WorkOfRegularSteps_IsCountedOnceAndCutAtTheirBorders) {
  Timeline timeline = TwoSteps();
  MeasureGpuInSteps(&timeline);
  // 102 to 107, 108 to 112, 119 to 120.
  EXPECT_DOUBLE_EQ(timeline.gpu_devices[0].busy_in_steps_share, 0.5);
  EXPECT_DOUBLE_EQ(timeline.gpu_devices[1].busy_in_steps_share, 0);
}

TEST(GpuInSteps, StepsOfTwoThreads_CountOnce) {
  Timeline timeline = TwoSteps();
  timeline.steps.push_back(At(101, 120));
  MeasureGpuInSteps(&timeline);
  EXPECT_DOUBLE_EQ(timeline.gpu_devices[0].busy_in_steps_share, 0.5);
}

TEST(GpuInSteps, StepsThatAreNotKnown_LeaveItUnknown) {
  for (const StepSource source : {StepSource::kNone, StepSource::kWholeCapture}) {
    Timeline timeline = TwoSteps();
    timeline.step_source = source;
    MeasureGpuInSteps(&timeline);
    EXPECT_EQ(timeline.gpu_devices[0].busy_in_steps_share, -1);
  }
}

TEST(GpuInSteps, LostRecordsOrWorkWithoutTimes_LeaveItUnknown) {
  Timeline timeline = TwoSteps();
  timeline.records_not_kept = 1;
  MeasureGpuInSteps(&timeline);
  EXPECT_EQ(timeline.gpu_devices[0].busy_in_steps_share, -1);
  timeline = TwoSteps();
  timeline.gpu_devices[0].untimed = 1;
  MeasureGpuInSteps(&timeline);
  EXPECT_EQ(timeline.gpu_devices[0].busy_in_steps_share, -1);
  EXPECT_DOUBLE_EQ(timeline.gpu_devices[1].busy_in_steps_share, 0);
}

TEST(GpuInSteps, NoRegularStep_LeavesItUnknown) {
  Timeline timeline = TwoSteps();
  for (Step& step : timeline.steps) step.is_regular = false;
  MeasureGpuInSteps(&timeline);
  EXPECT_EQ(timeline.gpu_devices[0].busy_in_steps_share, -1);
}

TEST(GpuInSteps, ActivityMissingInAStep_LeavesItUnknown) {
  Timeline timeline = TwoSteps();
  timeline.processes[0].gpu.gaps = {{.start_ps = 20 * kMs, .end_ps = 30 * kMs}};
  MeasureGpuInSteps(&timeline);
  EXPECT_DOUBLE_EQ(timeline.gpu_devices[0].busy_in_steps_share, 0.5) << "a gap outside of the regular steps";
  timeline = TwoSteps();
  timeline.processes[0].gpu.gaps = {{.start_ps = 90 * kMs, .end_ps = 101 * kMs}};
  MeasureGpuInSteps(&timeline);
  EXPECT_EQ(timeline.gpu_devices[0].busy_in_steps_share, -1);
}

}  // namespace
}  // namespace tbprof
