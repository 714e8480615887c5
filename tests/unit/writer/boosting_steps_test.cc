// SPDX-License-Identifier: Apache-2.0
// Rounds of XGBoost and LightGBM as steps.
#include "writer/steps/boosting_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "writer/convert/step_choice.h"

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;

class BoostingStepsTest : public testing::Test {
 protected:
  BoostingStepsTest() {
    timeline.types = {{"XGBoosterUpdateOneIter", EventFamily::kOther},
                      {"LGBM_BoosterUpdateOneIter", EventFamily::kOther},
                      {"LGBM_BoosterUpdateOneIterCustom", EventFamily::kOther},
                      {"IteratorGetNext", EventFamily::kOther}};
    timeline.processes.resize(1);
    timeline.threads.resize(2);
    timeline.threads[0].is_main = true;
  }
  // A round of 8 ms, and 2 ms until the next.
  void Round(uint16_t type = 0, uint32_t thread = 0) {
    Event event;
    event.type = type;
    event.start_ps = now;
    event.duration_ps = 8 * kMs;
    timeline.threads[thread].events.push_back(event);
    now += 10 * kMs;
  }
  InferredSteps Find() {
    timeline.duration_ps = now;
    return FindBoostingSteps(timeline, 0);
  }

  Timeline timeline;
  int64_t now = 0;
};

TEST_F(BoostingStepsTest, Rounds_AreStepsWithWhatIsBetweenThem) {
  for (int i = 0; i < 20; ++i) Round();
  const InferredSteps found = Find();
  ASSERT_EQ(found.steps.size(), 20u);
  EXPECT_EQ(found.source, "rounds of XGBoost");
  EXPECT_GE(found.confidence, 0.9);
  EXPECT_EQ(found.steps[3].start_ps, 30 * kMs);
  EXPECT_EQ(found.steps[3].end_ps, 40 * kMs);
  EXPECT_EQ(found.steps[3].number, 3);
  EXPECT_EQ(found.steps.back().end_ps - found.steps.back().start_ps, 8 * kMs) << "nothing is known behind the last";
}

TEST_F(BoostingStepsTest, OtherObjective_IsARoundOfLightGbm) {
  for (int i = 0; i < 20; ++i) Round(i % 2 == 0 ? 1 : 2);
  EXPECT_EQ(Find().source, "rounds of LightGBM");
  EXPECT_EQ(Find().steps.size(), 20u);
}

TEST_F(BoostingStepsTest, TimeBetweenTwoTrainings_IsNoStep) {
  for (int training = 0; training < 4; ++training) {
    for (int i = 0; i < 10; ++i) Round();
    now += 500 * kMs;
  }
  const InferredSteps found = Find();
  ASSERT_EQ(found.steps.size(), 40u);
  for (const Step& step : found.steps) EXPECT_LE(step.end_ps - step.start_ps, 10 * kMs);
}

TEST_F(BoostingStepsTest, SlowCallback_IsInTheStep) {
  for (int i = 0; i < 20; ++i) {
    Round();
    now += 30 * kMs;
  }
  EXPECT_EQ(Find().steps[5].end_ps - Find().steps[5].start_ps, 40 * kMs);
}

// xgb.cv: each of five folds has a booster.
TEST_F(BoostingStepsTest, BoostersThatTakeTurns_MakeAStepTogether) {
  for (int i = 0; i < 100; ++i) {
    Round();
    timeline.threads[0].events.back().object = 1000 + static_cast<uint64_t>(i % 5);
  }
  const InferredSteps found = Find();
  ASSERT_EQ(found.steps.size(), 20u);
  EXPECT_EQ(found.steps[3].end_ps - found.steps[3].start_ps, 50 * kMs);
}

TEST_F(BoostingStepsTest, BoostersOneAfterTheOther_HaveTheirOwnSteps) {
  for (int i = 0; i < 100; ++i) {
    Round();
    timeline.threads[0].events.back().object = 1000 + static_cast<uint64_t>(i / 20);
  }
  EXPECT_EQ(Find().steps.size(), 100u);
}

TEST_F(BoostingStepsTest, SeveralThreads_TheOneWithMostRoundsCounts) {
  for (int i = 0; i < 20; ++i) Round(0, i % 4 == 0 ? 0 : 1);
  const InferredSteps found = Find();
  EXPECT_EQ(found.steps.size(), 15u);
  EXPECT_EQ(found.steps[0].thread, 1u);
}

TEST_F(BoostingStepsTest, TwoRounds_AreNoSteps) {
  Round();
  Round();
  for (int i = 0; i < 20; ++i) Round(3);
  EXPECT_TRUE(Find().steps.empty());
}

TEST_F(BoostingStepsTest, Rounds_AreTheTimelinesSteps) {
  for (int i = 0; i < 20; ++i) Round();
  timeline.duration_ps = now;
  ChooseSteps({.process = 0, .marker = ""}, &timeline);
  EXPECT_EQ(timeline.step_source, StepSource::kFramework);
  EXPECT_EQ(timeline.step_source_text, "rounds of XGBoost");
}

// A small model is fitted within a job that has other steps. Without those, its rounds are all that is known.
TEST_F(BoostingStepsTest, FewRoundsBesideOtherSteps_AreNotTheSteps) {
  constexpr int64_t kUs = kMs / 1000;
  timeline.types.push_back({"cudaLaunchKernel", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation});
  const auto launch = [&](const std::string& kernel) {
    std::vector<GpuEvent>& stream = timeline.gpu_streams[0].events;
    GpuEvent& work = stream.emplace_back();
    work.correlation = stream.size();
    work.start_ps = now + 8 * kUs;
    work.duration_ps = 40 * kUs;
    work.name = timeline.strings.Intern(kernel);
    timeline.threads[0].events.push_back(
        {.start_ps = now, .duration_ps = 5 * kUs, .value = static_cast<int64_t>(work.correlation), .type = 4});
    now += 12 * kUs;
  };
  for (int i = 0; i < 20; ++i) Round();
  timeline.duration_ps = 10 * now;
  ChooseSteps({.process = 0, .marker = ""}, &timeline);
  EXPECT_EQ(timeline.step_source_text, "rounds of XGBoost");
  timeline.steps.clear();
  timeline.gpu_streams.emplace_back();
  for (int step = 0; step < 2000; ++step) {
    launch("copy of the batch");
    for (int layer = 0; layer < 4; ++layer) launch("forward");
    launch("multi_tensor_apply_kernel adam");
    now += 900 * kUs;
  }
  timeline.duration_ps = now;
  ChooseSteps({.process = 0, .marker = ""}, &timeline);
  EXPECT_EQ(timeline.step_source, StepSource::kInferred);
  EXPECT_GE(timeline.steps.size(), 1900u);
}

}  // namespace
}  // namespace tbprof
