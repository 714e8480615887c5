// SPDX-License-Identifier: Apache-2.0
//
// Samples divided into regular steps, other steps and the time outside of steps.
#include "writer/convert/sample_phases.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;  // picoseconds

// A sample each 10 ms.
PythonRun MakeRun(int64_t first_ms, uint32_t samples, uint32_t stack, uint32_t on_cpu = 0) {
  PythonRun run;
  run.first_ps = first_ms * kMs;
  run.last_ps = (first_ms + 10 * (samples - 1)) * kMs;
  run.period_ps = 10 * kMs;
  run.stack = stack;
  run.samples = samples;
  run.on_cpu = on_cpu;
  run.cpu_ps = run.period_ps * on_cpu;
  return run;
}

Timeline WithSteps(const std::vector<Step>& steps) {
  Timeline timeline;
  timeline.step_source = StepSource::kMarked;
  timeline.steps = steps;
  return timeline;
}

Step MakeStep(int64_t start_ms, int64_t end_ms, bool is_regular = true) {
  Step step;
  step.start_ps = start_ms * kMs;
  step.end_ps = end_ms * kMs;
  step.is_regular = is_regular;
  return step;
}

uint64_t SamplesOf(const SamplePhases::Tallies& tallies, SamplePhase phase) {
  uint64_t samples = 0;
  for (const PythonTally& tally : tallies[static_cast<size_t>(phase)]) samples += tally.samples;
  return samples;
}

TEST(SamplePhases, StepsOfAPartOfTheTime_AreNoPhases) {
  Timeline timeline = WithSteps({MakeStep(30, 60), MakeStep(60, 100)});
  timeline.steps_in_detail = true;
  EXPECT_FALSE(SamplePhases(timeline).known());
}

TEST(SamplePhases, RunAcrossSteps_IsDividedAtTheirBorders) {
  // Samples at 0, 10, ..., 190 ms.
  const Timeline timeline = WithSteps({MakeStep(30, 60, false), MakeStep(60, 100), MakeStep(100, 145)});
  PythonThread thread;
  thread.runs = {MakeRun(0, 20, 1, 20)};
  const SamplePhases phases(timeline);
  ASSERT_TRUE(phases.known());
  const SamplePhases::Tallies tallies = phases.Of(thread);
  EXPECT_EQ(SamplesOf(tallies, SamplePhase::kIrregularSteps), 3u);  // 30, 40, 50
  EXPECT_EQ(SamplesOf(tallies, SamplePhase::kSteps), 9u);           // 60 to 140
  EXPECT_EQ(SamplesOf(tallies, SamplePhase::kOutside), 8u);         // 0, 10, 20, 150 to 190
  const PythonTally& steps = tallies[static_cast<size_t>(SamplePhase::kSteps)].at(0);
  EXPECT_EQ(steps.on_cpu, 9u);
  EXPECT_EQ(steps.wall_ps, 90 * kMs);
  EXPECT_EQ(steps.on_cpu_ps, 90 * kMs);
}

TEST(SamplePhases, ManyRuns_LoseNoSample) {
  std::vector<Step> steps;
  for (int64_t i = 0; i < 50; ++i) steps.push_back(MakeStep(7 + i * 37, 7 + i * 37 + 29, i % 5 != 0));
  const Timeline timeline = WithSteps(steps);
  PythonThread thread;
  uint64_t samples = 0, on_cpu = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    const uint32_t count = 1 + i % 7;
    thread.runs.push_back(MakeRun(static_cast<int64_t>(i) * 80, count, 1 + i % 3, count / 2));
    samples += count;
    on_cpu += count / 2;
  }
  for (const auto& phase : SamplePhases(timeline).Of(thread)) {
    for (const PythonTally& tally : phase) {
      samples -= tally.samples;
      on_cpu -= tally.on_cpu;
    }
  }
  EXPECT_EQ(samples, 0u);
  EXPECT_EQ(on_cpu, 0u);
}

TEST(SamplePhases, SampleAtTheBorder_BelongsToTheStepThatBegins) {
  const Timeline timeline = WithSteps({MakeStep(0, 50), MakeStep(50, 100, false)});
  PythonThread thread;
  thread.runs = {MakeRun(50, 1, 1)};
  const SamplePhases::Tallies tallies = SamplePhases(timeline).Of(thread);
  EXPECT_EQ(SamplesOf(tallies, SamplePhase::kIrregularSteps), 1u);
}

TEST(SamplePhases, StepsThatOverlap_CountEachSampleOnce) {
  const Timeline timeline = WithSteps({MakeStep(0, 100), MakeStep(20, 60), MakeStep(50, 150)});
  PythonThread thread;
  thread.runs = {MakeRun(0, 20, 1)};
  const SamplePhases::Tallies tallies = SamplePhases(timeline).Of(thread);
  EXPECT_EQ(SamplesOf(tallies, SamplePhase::kSteps), 15u);
  EXPECT_EQ(SamplesOf(tallies, SamplePhase::kOutside), 5u);
}

TEST(SamplePhases, WholeCaptureAsAStep_IsNotKnown) {
  Timeline timeline = WithSteps({MakeStep(0, 100)});
  timeline.step_source = StepSource::kWholeCapture;
  EXPECT_FALSE(SamplePhases(timeline).known());
  EXPECT_FALSE(SamplePhases(Timeline()).known());
}

}  // namespace
}  // namespace tbprof
