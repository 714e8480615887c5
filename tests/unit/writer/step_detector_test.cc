// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_detector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/unit/writer/step_maker.h"

namespace tbprof {
namespace {

constexpr int64_t kMillisecond = 1'000'000'000;

// With sanitizers a run takes ten times as long, and more seeds find no more errors.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kFewer = 4;
#else
constexpr int kFewer = 1;
#endif

StepLaunch Launch(int64_t start, int64_t duration, uint64_t symbol, uint8_t flags = 0) {
  return {start, start + duration, symbol, flags};
}

// Steps of ten launches, one per ms; if `named`, the last two belong to an optimizer.
std::vector<StepLaunch> Plain(int steps, bool named = false) {
  std::vector<StepLaunch> launches;
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < 10; ++i) {
      const uint8_t flags = named && i >= 8 ? StepLaunch::kOptimizer : 0;
      launches.push_back(Launch((step * 20 + 5 + i) * kMillisecond, kMillisecond / 2, static_cast<uint64_t>(i), flags));
    }
  }
  return launches;
}

// Checks what must hold for any input.
void ExpectSane(const StepDetection& found) {
  EXPECT_GE(found.confidence, 0);
  EXPECT_LE(found.confidence, 1);
  EXPECT_EQ(found.steps.empty(), found.confidence == 0);
  EXPECT_EQ(found.steps.empty(), found.period_ps == 0);
  for (size_t i = 0; i < found.steps.size(); ++i) {
    EXPECT_LE(found.steps[i].start_ps, found.steps[i].end_ps);
    if (i == 0) continue;
    EXPECT_LE(found.steps[i - 1].end_ps, found.steps[i].start_ps);
  }
}

struct Outcome {
  double mean = 0, worst = 1, sure_and_wrong = 0;
  std::string worst_name;
  int found_in_nothing = 0;
};

Outcome RunCases(const std::vector<StepCase>& cases, uint64_t first_seed, int seeds) {
  Outcome outcome;
  int periodic = 0, runs = 0, wrong = 0;
  for (const StepCase& one : cases) {
    double sum = 0;
    bool is_periodic = false;
    for (int i = 0; i < seeds; ++i) {
      const MadeSteps made = MakeSteps(one.shape, first_seed + static_cast<uint64_t>(i));
      const StepDetection found = DetectSteps(made.launches);
      ExpectSane(found);
      const StepScore score = ScoreSteps(made, found);
      is_periodic = made.periodic;
      sum += score.f1;
      ++runs;
      wrong += score.f1 < 0.85 && found.confidence > kSureConfidence;
      outcome.found_in_nothing += !made.periodic && !found.steps.empty();
    }
    if (!is_periodic) continue;
    ++periodic;
    outcome.mean += sum / seeds;
    if (sum / seeds < outcome.worst) {
      outcome.worst = sum / seeds;
      outcome.worst_name = one.name;
    }
  }
  outcome.mean /= periodic;
  outcome.sure_and_wrong = static_cast<double>(wrong) / runs;
  return outcome;
}

TEST(StepDetector, HeldOutCases_StepsAreFound) {
  const Outcome outcome = RunCases(HeldOutCases(), kHeldOutSeeds + 100'000, 8 / kFewer);
  EXPECT_GE(outcome.mean, 0.95);
  EXPECT_GE(outcome.worst, 0.85) << outcome.worst_name;
  EXPECT_LE(outcome.sure_and_wrong, 0.01);
  EXPECT_EQ(outcome.found_in_nothing, 0);
}

TEST(StepDetector, TuningCases_StepsAreFound) {
  const Outcome outcome = RunCases(TuningCases(), 1, 4 / kFewer);
  EXPECT_GE(outcome.mean, 0.95);
  EXPECT_GE(outcome.worst, 0.85) << outcome.worst_name;
  EXPECT_LE(outcome.sure_and_wrong, 0.01);
  EXPECT_EQ(outcome.found_in_nothing, 0);
}

TEST(StepDetector, RandomPrograms_AreSeldomSureAndWrong) {
  constexpr int kPrograms = 400 / kFewer;
  int sure = 0, sure_and_wrong = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const uint64_t seed = kHeldOutSeeds + 700'000 + static_cast<uint64_t>(i);
    const MadeSteps made = MakeSteps(RandomShape(seed), seed);
    const StepDetection found = DetectSteps(made.launches);
    ExpectSane(found);
    if (found.confidence <= kSureConfidence) continue;
    ++sure;
    sure_and_wrong += ScoreSteps(made, found).f1 < 0.85;
  }
  EXPECT_GE(sure, kPrograms / 3);
  EXPECT_LE(sure_and_wrong, kPrograms / 50);
}

TEST(StepDetector, AmbiguousCases_LowConfidence) {
  for (const StepCase& one : AmbiguousCases()) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const MadeSteps made = MakeSteps(one.shape, seed);
      const StepDetection found = DetectSteps(made.launches);
      EXPECT_LE(found.confidence, kSureConfidence) << one.name;
      const double ratio = static_cast<double>(made.median_ps) / static_cast<double>(found.period_ps);
      if (ScoreSteps(made, found).f1 >= 0.85) continue;
      // `alternative` goes by the count of steps: an epoch that evaluates is longer than its steps.
      EXPECT_NEAR(found.alternative / ratio, 1, one.shape.evaluate_every > 0 ? 0.3 : 0.2) << one.name;
    }
  }
}

// Several updates of a critic and one of a generator, each with an optimizer: each update, or all together, may be the
// step.
TEST(StepDetector, SeveralUpdatesOfACritic_LowConfidence) {
  for (const int critics : {5, 7}) {
    for (const int64_t gap_us : {0, 300}) {
      std::mt19937 random(1);
      std::vector<StepLaunch> launches;
      int64_t now = 0;
      const auto launch = [&](uint64_t symbol, uint8_t flags = 0) {
        const int64_t length = 12'000'000 + static_cast<int64_t>(random() % 2'000'000);
        launches.push_back(Launch(now, length / 2, symbol, flags));
        now += length;
      };
      for (int update = 0; update < 60 * (critics + 1); ++update) {
        const bool generator = update % (critics + 1) == critics;
        now += gap_us * 1'000'000;
        for (uint64_t i = 0; i < 14; ++i) launch(1 + i % 5);
        for (uint64_t i = 0; i < 14; ++i) launch((generator ? 20 : 10) + i % 4);
        for (int i = 0; i < 2; ++i) launch(30, StepLaunch::kOptimizer);
      }
      const StepDetection found = DetectSteps(launches);
      SCOPED_TRACE(testing::Message() << critics << " critics, " << gap_us << " us");
      ASSERT_FALSE(found.steps.empty());
      const bool all_together = found.steps.size() < 65;
      EXPECT_LE(found.confidence, all_together ? 1 : kSureConfidence);
      if (!all_together) {
        EXPECT_NEAR(found.alternative, critics + 1, 0.2);
      }
    }
  }
}

TEST(StepDetector, Gaps_StepsBeginBehindThem) {
  const StepDetection found = DetectSteps(Plain(30));
  ASSERT_EQ(found.steps.size(), 30u);
  EXPECT_EQ(found.period_ps, 20 * kMillisecond);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(found.steps[static_cast<size_t>(i)].start_ps, (i * 20 + 5) * kMillisecond);
    EXPECT_EQ(found.steps[static_cast<size_t>(i)].kind, DetectedStep::Kind::kRegular);
  }
  EXPECT_EQ(found.steps.back().end_ps, (29 * 20 + 14) * kMillisecond + kMillisecond / 2);
  EXPECT_GT(found.confidence, kSureConfidence);
}

TEST(StepDetector, NoGaps_StepsBeginBehindTheOptimizer) {
  std::vector<StepLaunch> launches;
  int64_t now = 0;
  for (int step = 0; step < 40; ++step) {
    for (int i = 0; i < 10; ++i) {
      // The trace begins in the middle of a step.
      const int at = (i + 6) % 10;
      launches.push_back(Launch(now, kMillisecond, static_cast<uint64_t>(at), at >= 8 ? StepLaunch::kOptimizer : 0));
      now += kMillisecond;
    }
  }
  const StepDetection found = DetectSteps(launches);
  ASSERT_GE(found.steps.size(), 38u);
  for (const DetectedStep& step : found.steps) EXPECT_EQ(step.start_ps / kMillisecond % 10, 4);
}

TEST(StepDetector, WarmUpAndPauses_AreNamed) {
  std::vector<StepLaunch> launches = Plain(40, true);
  // The first step pauses for 100 ms after its fifth launch, and step 20 pauses for 90 ms before its second half.
  for (size_t i = 0; i < launches.size(); ++i) {
    int64_t by = i > 4 ? 100 * kMillisecond : 0;
    if (i >= 205) by += 90 * kMillisecond;
    launches[i].start_ps += by;
    launches[i].end_ps += by;
  }
  const StepDetection found = DetectSteps(launches);
  ASSERT_EQ(found.steps.size(), 40u);
  for (size_t i = 0; i < 40; ++i) {
    const DetectedStep::Kind kind = i == 0    ? DetectedStep::Kind::kWarmUp
                                    : i == 20 ? DetectedStep::Kind::kIrregular
                                              : DetectedStep::Kind::kRegular;
    EXPECT_EQ(found.steps[i].kind, kind) << i;
  }
  EXPECT_EQ(found.steps[20].cause, DetectedStep::Cause::kPause);
  EXPECT_EQ(found.period_ps, 20 * kMillisecond);
}

TEST(StepDetector, Accumulation_AlternativeIsReported) {
  StepShape shape;
  shape.accumulation = 4;
  const StepDetection named = DetectSteps(MakeSteps(shape, 3).launches);
  EXPECT_EQ(named.accumulation, 4u);
  EXPECT_GT(named.confidence, kSureConfidence);
  shape.optimizer = StepShape::kUnnamed;
  const StepDetection unnamed = DetectSteps(MakeSteps(shape, 3).launches);
  EXPECT_DOUBLE_EQ(unnamed.alternative, 0.25);
  EXPECT_LT(unnamed.confidence, kSureConfidence);
}

TEST(StepDetector, LostRecords_NoRegularStepSpansThem) {
  std::vector<StepLaunch> launches = Plain(60, true);
  launches.erase(launches.begin() + 303, launches.begin() + 338);
  launches[303].flags |= StepLaunch::kAfterLoss;
  const StepDetection found = DetectSteps(launches);
  ASSERT_GE(found.steps.size(), 55u);
  for (const DetectedStep& step : found.steps) {
    const bool over = step.start_ps <= launches[302].start_ps && step.end_ps > launches[303].start_ps;
    EXPECT_EQ(over, step.cause == DetectedStep::Cause::kLoss) << step.start_ps;
    EXPECT_EQ(over, step.kind != DetectedStep::Kind::kRegular) << step.start_ps;
  }
}

TEST(StepDetector, OneExecutableRepeated_EachRunIsAStep) {
  std::vector<StepLaunch> launches;
  for (int i = 0; i < 20; ++i) {
    launches.push_back(Launch(i * 7 * kMillisecond, kMillisecond, 42, StepLaunch::kExecutable));
  }
  const StepDetection found = DetectSteps(launches);
  EXPECT_GE(found.steps.size(), 19u);
  EXPECT_EQ(found.period_ps, 7 * kMillisecond);
  EXPECT_GT(found.confidence, kSureConfidence);
  // The same without known names of optimizers.
  for (StepLaunch& launch : launches) launch.flags = 0;
  EXPECT_LT(DetectSteps(launches).confidence, kSureConfidence);
}

TEST(StepDetector, TooFewLaunches_HaveNoSteps) {
  EXPECT_TRUE(DetectSteps({}).steps.empty());
  EXPECT_TRUE(DetectSteps(Plain(1)).steps.empty());
  EXPECT_TRUE(DetectSteps(Plain(2)).steps.empty());
  EXPECT_TRUE(DetectSteps(Plain(3)).steps.empty());
}

TEST(StepDetector, HostileTimes_GiveValidSteps) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  std::mt19937_64 random(5);
  for (int kind = 0; kind < 7; ++kind) {
    std::vector<StepLaunch> launches = Plain(50, true);
    for (size_t i = 0; i < launches.size(); ++i) {
      StepLaunch& launch = launches[i];
      if (kind == 0) launch.start_ps = launch.end_ps = 7;
      if (kind == 1) launch.start_ps = -launch.start_ps;
      if (kind == 2) launch.start_ps = launch.end_ps = i % 2 == 0 ? kMin : kMax;
      if (kind == 3) launch.end_ps = kMin;
      if (kind == 4) launch.end_ps = kMax;
      if (kind == 5) launch = {static_cast<int64_t>(random()), static_cast<int64_t>(random()), random() % 5, 0xff};
      if (kind == 6) launch.start_ps = i < 250 ? kMin : kMax;
    }
    ExpectSane(DetectSteps(launches));
  }
}

TEST(StepDetector, HostileSymbols_GiveValidSteps) {
  std::mt19937_64 random(6);
  std::vector<StepLaunch> launches(400'000);
  for (int kind = 0; kind < 6; ++kind) {
    for (size_t i = 0; i < launches.size(); ++i) {
      const uint64_t number = i;
      uint64_t symbol = 0;
      if (kind == 1) symbol = random();
      if (kind == 2) symbol = number << 44;
      if (kind == 3) symbol = random() % 3;
      if (kind == 4) symbol = number % 200'000;
      if (kind == 5) symbol = static_cast<uint64_t>(std::countr_zero(number + 1));
      launches[i] =
          Launch(static_cast<int64_t>(i) * 1'000'000, 900'000, symbol, kind == 3 ? StepLaunch::kAfterLoss : 0);
    }
    ExpectSane(DetectSteps(launches));
  }
}

TEST(StepDetector, ManyKindsOfLaunches_AreCapped) {
  std::mt19937_64 random(7);
  std::vector<StepLaunch> launches;
  launches.reserve(kMaxTypes * 3 / 2);
  // A loop among names that never repeat.
  for (size_t i = 0; i < kMaxTypes * 3 / 2; ++i) {
    launches.push_back(Launch(static_cast<int64_t>(i) * 1'000'000, 900'000, i % 1000 < 10 ? i % 1000 : random()));
  }
  const StepDetection found = DetectSteps(launches);
  EXPECT_TRUE(found.capped);
  ExpectSane(found);
  EXPECT_EQ(found.period_ps, 1000 * 1'000'000);
}

TEST(StepDetector, NamesOfOptimizers_AreRecognised) {
  for (const char* name : {"void at::native::multi_tensor_apply_kernel<>", "FusedAdamKernel", "_foreach_add_",
                           "sgd_update", "LAMB stage 1", "fused_lion", "Muon", "RMSprop"}) {
    EXPECT_TRUE(NameLooksLikeOptimizer(name)) << name;
  }
  for (const char* name : {"", "ampere_sgemm_128x64_nn", "void elementwise<at::native::{lambda(float)#1}>", "millions",
                           "ad", "cudnn::bn_fw"}) {
    EXPECT_FALSE(NameLooksLikeOptimizer(name)) << name;
  }
}

StepActivity Activity(int bins, double period, uint64_t seed, double noise) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  StepActivity activity;
  activity.start_ps = 1000;
  activity.bin_ps = kMillisecond;
  activity.signals.resize(2);
  for (int i = 0; i < bins; ++i) {
    const double turn = period > 0 ? i / period - std::floor(i / period) : 0;
    // Live bytes grow until the middle of a step; parallel regions are in its second half.
    activity.signals[0].push_back(static_cast<float>(1 - std::abs(2 * turn - 1) + normal(random)));
    activity.signals[1].push_back(static_cast<float>((turn > 0.5 ? 1 : 0) + normal(random)));
  }
  return activity;
}

TEST(StepsInActivity, PeriodicActivity_PeriodAndPhaseAreFound) {
  const StepDetection found = DetectStepsInActivity(Activity(4000, 83.4, 1, 0.1));
  ExpectSane(found);
  ASSERT_NEAR(static_cast<double>(found.steps.size()), 4000 / 83.4, 2);
  EXPECT_NEAR(static_cast<double>(found.period_ps), 83.4 * kMillisecond, 0.2 * kMillisecond);
  EXPECT_LE(found.confidence, kSureConfidence);
  for (const DetectedStep& step : found.steps) {
    const double turn = static_cast<double>(step.start_ps) / kMillisecond / 83.4;
    EXPECT_NEAR(turn, std::round(turn), 0.12);
  }
}

TEST(StepsInActivity, NoiseAndTrends_HaveNoSteps) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(DetectStepsInActivity(Activity(3000, 0, seed, 1)).steps.empty());
  }
  std::mt19937_64 random(9);
  for (int kind = 0; kind < 3; ++kind) {
    StepActivity activity = Activity(2000, 0, 1, 1);
    double walk = 0;
    for (size_t i = 0; i < 2000; ++i) {
      walk += static_cast<double>(random() % 201) - 100;
      const float value = kind == 0   ? static_cast<float>(walk)
                          : kind == 1 ? static_cast<float>(i)
                          : i == 700  ? 1e30f
                                      : 0;
      activity.signals[0][i] = activity.signals[1][i] = value;
    }
    EXPECT_TRUE(DetectStepsInActivity(activity).steps.empty()) << kind;
  }
}

TEST(StepsInActivity, HostileInput_GivesValidSteps) {
  EXPECT_TRUE(DetectStepsInActivity({}).steps.empty());
  StepActivity activity = Activity(1000, 50, 1, 0.1);
  activity.phase_signal = 7;
  ExpectSane(DetectStepsInActivity(activity));
  activity.signals[1].pop_back();
  EXPECT_TRUE(DetectStepsInActivity(activity).steps.empty());
  activity = Activity(1000, 50, 1, 0.1);
  activity.bin_ps = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(DetectStepsInActivity(activity).steps.empty());
  activity.bin_ps = 0;
  EXPECT_TRUE(DetectStepsInActivity(activity).steps.empty());
  activity = Activity(1000, 50, 1, 0.1);
  for (size_t i = 0; i < 1000; i += 3) activity.signals[0][i] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < 1000; i += 7) activity.signals[1][i] = std::numeric_limits<float>::max();
  activity.start_ps = std::numeric_limits<int64_t>::max();
  ExpectSane(DetectStepsInActivity(activity));
}

}  // namespace
}  // namespace tbprof
