// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "launcher/gate/compare.h"
#include "launcher/gate/fail_on.h"
#include "launcher/gate/gate_output.h"
#include "launcher/gate/window_error.h"
#include "tests/unit/launcher/gate_simulation.h"
#include "writer/outputs/summary_steps.h"

namespace tbprof {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Simulation kSteps{.run_sd = 0, .spike_share = 0};

// A capture of the process with this pid.
RunNumbers Window(RunNumbers run, int64_t pid = 7) {
  run.identity.window = "capture 1";
  run.identity.pid = pid;
  run.identity.started_ticks = 1000;
  return run;
}

RunNumbers MakeWindow(Simulator* simulator, size_t steps, double slower, int64_t place, Simulation of = kSteps) {
  of.steps = steps;
  return Window(simulator->Run(of, std::log1p(slower), place));
}

Comparison CompareTwo(const RunNumbers& base, const RunNumbers& now) { return Compare({{base}}, {{now}}, {}); }

const QuantityResult* Find(const Comparison& comparison, std::string_view name) {
  for (const QuantityResult& quantity : comparison.quantities) {
    if (quantity.name == name) return &quantity;
  }
  return nullptr;
}

RuleResult Apply(const std::string& rule, const Comparison& comparison) {
  FailOnProblem problem;
  const absl::StatusOr<FailRule> parsed = ParseFailRule(rule, &problem);
  EXPECT_TRUE(parsed.ok()) << rule;
  return ApplyFailRule(*parsed, comparison);
}

TEST(WindowCompareTest, Compare_OneProcessWithFewerSteps_IsWorse) {
  Simulator simulator(1);
  const Comparison comparison = CompareTwo(MakeWindow(&simulator, 1820, 0, 1), MakeWindow(&simulator, 173, 9, 2));
  EXPECT_TRUE(comparison.one_process);
  EXPECT_EQ(comparison.answer, Answer::kWorse) << comparison.reason;
  EXPECT_THAT(comparison.warnings, IsEmpty());
  const std::string line = AnswerLine(comparison);
  EXPECT_THAT(line, HasSubstr("worse: the step takes "));
  EXPECT_THAT(line, HasSubstr(" ms longer ("));
  EXPECT_THAT(line, HasSubstr(", two windows of one process"));
  const QuantityResult* step = Find(comparison, "step_time");
  ASSERT_NE(step, nullptr);
  EXPECT_LT(*step->low, 9);
  EXPECT_GT(*step->high, 9);
}

TEST(WindowCompareTest, Compare_OneProcessThatGotFaster_NamesTheLess) {
  Simulator simulator(2);
  const Comparison comparison = CompareTwo(MakeWindow(&simulator, 173, 9, 1), MakeWindow(&simulator, 1820, 0, 2));
  EXPECT_EQ(comparison.answer, Answer::kBetter);
  EXPECT_THAT(AnswerLine(comparison), HasSubstr(" ms less ("));
}

TEST(WindowCompareTest, Compare_WindowsOfTwoProcesses_CannotTell) {
  Simulator simulator(3);
  const RunNumbers base = MakeWindow(&simulator, 1820, 0, 1), now = MakeWindow(&simulator, 173, 9, 2);
  const Comparison comparison = CompareTwo(base, Window(now, 8));
  EXPECT_FALSE(comparison.one_process);
  EXPECT_EQ(comparison.answer, Answer::kCannotTell);
  EXPECT_THAT(comparison.reason, HasSubstr("one run a side"));
  RunNumbers unknown = now;
  unknown.identity.started_ticks = 0;
  EXPECT_FALSE(CompareTwo(base, unknown).one_process);
}

// Steps correlate with their neighbours, and the level of a shared machine wanders.
TEST(WindowCompareTest, Compare_SameProcessUnchanged_WorseInAtMostOnePercent) {
  constexpr int kComparisons = 400;
  for (const double correlation : {0.3, 0.9, 0.97}) {
    Simulator simulator(4);
    int worse = 0, better = 0;
    for (int i = 0; i < kComparisons; ++i) {
      const Simulation of{.run_sd = 0, .step_sd = 0.2, .correlation = correlation};
      const Comparison comparison =
          CompareTwo(MakeWindow(&simulator, 300, 0, 2 * i + 1, of), MakeWindow(&simulator, 300, 0, 2 * i + 2, of));
      worse += comparison.answer == Answer::kWorse ? 1 : 0;
      better += comparison.answer == Answer::kBetter ? 1 : 0;
    }
    EXPECT_LE(worse, kComparisons / 100) << correlation;
    EXPECT_LE(better, kComparisons / 100) << correlation;
  }
}

TEST(WindowCompareTest, Compare_StepsNotListed_TakesTheMediansOfBlocks) {
  Simulator simulator(5);
  const auto blocks_only = [](RunNumbers run) {
    run.block_medians_s = BlockMedians(run.steps_s, 16);
    run.block_means_s = BlockMeans(run.steps_s, 16);
    run.steps_s.clear();
    return run;
  };
  const RunNumbers base = blocks_only(MakeWindow(&simulator, 4000, 0, 1));
  EXPECT_EQ(CompareTwo(base, MakeWindow(&simulator, 400, 9, 2)).answer, Answer::kWorse);
  EXPECT_EQ(CompareTwo(base, blocks_only(MakeWindow(&simulator, 4000, 0, 3))).answer, Answer::kEquivalent);
  RunNumbers without = base;
  without.block_medians_s.clear();
  const Comparison unknown = CompareTwo(without, MakeWindow(&simulator, 400, 9, 4));
  EXPECT_EQ(unknown.answer, Answer::kCannotTell);
  EXPECT_THAT(unknown.reason, HasSubstr("too few steps in a window"));
}

TEST(WindowCompareTest, Compare_CountsOfWindows_AllowForStepsAtTheEnds) {
  Simulator simulator(6);
  RunNumbers base = MakeWindow(&simulator, 1820, 0, 1), now = MakeWindow(&simulator, 173, 9, 2);
  base.counts = {{"allocations", 846.2, CountBasis::kRun}, {"kernels", 10, CountBasis::kRun}};
  now.counts = {{"allocations", 850.1, CountBasis::kRun}, {"kernels", 20, CountBasis::kRun}};
  const Comparison comparison = CompareTwo(base, now);
  EXPECT_EQ(Find(comparison, "allocations_per_step")->answer, Answer::kEquivalent);
  EXPECT_EQ(Find(comparison, "kernels_per_step")->answer, Answer::kWorse);
  EXPECT_EQ(Apply("kernels_per_step>+50%", comparison).state, RuleResult::State::kFails);
  EXPECT_EQ(Apply("allocations_per_step>+5%", comparison).state, RuleResult::State::kHolds);
}

// Counters of calls are read near the ends of a window.
TEST(WindowCompareTest, CountTolerance_Counter_IsLargerInAShortWindow) {
  RunNumbers run;
  run.steps = 1000;
  run.wall_s = 1;
  const double of_records = CountTolerance(run, 100, run, 100, false);
  EXPECT_NEAR(of_records, 100 * 0.002 + 3 * std::sqrt(2 * 1e5) / 1000, 1e-9);
  EXPECT_NEAR(CountTolerance(run, 100, run, 100, true), of_records + 25, 1e-9);
  run.wall_s = 10;
  EXPECT_NEAR(CountTolerance(run, 100, run, 100, true), of_records + 2.5, 1e-9);
}

// A count that was zero or nearly so, and is large now.
TEST(WindowCompareTest, Compare_CountFromNothing_IsWorse) {
  for (const double before : {0.0, 0.005}) {
    Simulator simulator(7);
    RunNumbers base = MakeWindow(&simulator, 1000, 0, 1), now = MakeWindow(&simulator, 1000, 0, 2);
    base.counts = {{"kernels", before, CountBasis::kRun}};
    now.counts = {{"kernels", 10, CountBasis::kRun}};
    EXPECT_EQ(Find(CompareTwo(base, now), "kernels_per_step")->answer, Answer::kWorse) << before;
    now.counts = {{"kernels", before + 0.003, CountBasis::kRun}};
    EXPECT_EQ(Find(CompareTwo(base, now), "kernels_per_step")->answer, Answer::kEquivalent) << before;
  }
}

TEST(WindowCompareTest, Compare_LockWaits_AreNotExact) {
  Simulator simulator(8);
  RunNumbers base = MakeWindow(&simulator, 1000, 0, 1), now = MakeWindow(&simulator, 1000, 0, 2);
  base.counts = {{"lock_waits", 2.0, CountBasis::kRun}};
  now.counts = {{"lock_waits", 2.3, CountBasis::kRun}};
  EXPECT_EQ(Find(CompareTwo(base, now), "lock_waits_per_step")->answer, Answer::kCannotTell);
}

// The mean of steps of which some are rare and long varies more than their medians show.
TEST(WindowCompareTest, MeanStepOfWindow_RareLongSteps_HasTheirError) {
  RunNumbers run;
  for (int i = 0; i < 5000; ++i) run.steps_s.push_back(i % 97 == 13 ? 0.1 : 0.01);
  std::mt19937 random(3);
  std::ranges::shuffle(run.steps_s, random);
  const double listed = MeanStepOfWindow(run).error.error;
  run.block_medians_s = BlockMedians(run.steps_s, 20);
  run.block_means_s = BlockMeans(run.steps_s, 20);
  run.mean_step_s = 0.011;
  run.steps_s.clear();
  const double of_blocks = MeanStepOfWindow(run).error.error;
  EXPECT_GT(of_blocks, listed / 2);
  EXPECT_LT(of_blocks, listed * 2);
}

TEST(WindowCompareTest, Blame_LineOfManySamples_IsSignificant) {
  Simulator simulator(7);
  RunNumbers base = MakeWindow(&simulator, 1820, 0, 1), now = MakeWindow(&simulator, 173, 9, 2);
  base.amounts = {{AmountKind::kPythonLine, "a.py:7 load", 0.001, 30},
                  {AmountKind::kPythonLine, "a.py:9 rare", 0, 0},
                  {AmountKind::kPythonLine, "a.py:8 main", 0.009, 270}};
  now.amounts = {{AmountKind::kPythonLine, "a.py:7 load", 0.089, 265},
                 {AmountKind::kPythonLine, "a.py:9 rare", 0.0007, 2},
                 {AmountKind::kPythonLine, "a.py:8 main", 0.010, 30}};
  const Comparison comparison = CompareTwo(base, now);
  ASSERT_FALSE(comparison.blame.empty());
  EXPECT_EQ(comparison.blame[0].name, "a.py:7 load");
  EXPECT_TRUE(comparison.blame[0].significant);
  for (const BlameRow& row : comparison.blame) {
    EXPECT_EQ(row.significant, row.name == "a.py:7 load") << row.name;
  }
  EXPECT_EQ(Apply("line:a.py:7 load>+5ms", comparison).state, RuleResult::State::kFails);
  EXPECT_EQ(Apply("line:a.py:8 main>+50ms", comparison).state, RuleResult::State::kHolds);
  EXPECT_EQ(Apply("line:a.py:7 load>+88ms", comparison).state, RuleResult::State::kCannotTell);
  EXPECT_THAT(ComparisonAsText(comparison), Not(HasSubstr("a.py:9 rare")));
}

TEST(WindowCompareTest, Compare_SeveralWindowsASide_CountsThem) {
  Simulator simulator(8);
  const Comparison comparison = Compare({{MakeWindow(&simulator, 1820, 0, 1), MakeWindow(&simulator, 1900, 0, 2)}},
                                        {{MakeWindow(&simulator, 173, 9, 3), MakeWindow(&simulator, 160, 9, 4)}}, {});
  EXPECT_EQ(comparison.answer, Answer::kWorse) << comparison.reason;
  EXPECT_THAT(AnswerLine(comparison), HasSubstr("2 + 2 windows of one process"));
  const Comparison three = Compare({{MakeWindow(&simulator, 1820, 0, 5)}},
                                   {{MakeWindow(&simulator, 173, 9, 6), MakeWindow(&simulator, 160, 9, 7)}}, {});
  EXPECT_EQ(three.answer, Answer::kWorse) << three.reason;
  EXPECT_THAT(NextLine(three), HasSubstr("tbprof report"));
}

TEST(WindowCompareTest, Compare_WaitsForACpuAreTheChange_Warns) {
  Simulator simulator(9);
  RunNumbers base = MakeWindow(&simulator, 1820, 0, 1), now = MakeWindow(&simulator, 173, 9, 2);
  base.amounts = {{AmountKind::kPart, "starvation", 0.001}, {AmountKind::kPart, "python", 0.009}};
  now.amounts = {{AmountKind::kPart, "starvation", 0.08}, {AmountKind::kPart, "python", 0.02}};
  base.split_step_s = base.mean_step_s;
  now.split_step_s = now.mean_step_s;
  const Comparison comparison = CompareTwo(base, now);
  EXPECT_EQ(comparison.answer, Answer::kWorse);
  ASSERT_EQ(comparison.warnings.size(), 1u);
  EXPECT_THAT(comparison.warnings[0], HasSubstr("waits for a CPU are "));
}

// A window without steps whose time is in these lines.
RunNumbers WithoutSteps(const std::vector<Amount>& shares, double samples, int64_t place) {
  RunNumbers run;
  run.path = "w" + std::to_string(place);
  run.start_unix_ns = place;
  run.no_times = "its steps are not known";
  run.identity.command = "python job.py";
  run.wall_s = samples / 100;
  run.shares = shares;
  run.python_samples = samples;
  return Window(run);
}

TEST(WindowCompareTest, Compare_WindowsWithoutSteps_NamesWhatTakesAnotherShare) {
  const auto window = [](double parse, double samples, int64_t place) {
    return WithoutSteps({{AmountKind::kPart, "python", parse + 0.02},
                         {AmountKind::kOwnLine, "job.py:4 parse", parse},
                         {AmountKind::kOwnLine, "job.py:7 digest", 0.9 - parse},
                         {AmountKind::kPythonLine, "job.py:4 parse", parse},
                         {AmountKind::kPythonLine, "lib.py:9 read", 0.9 - parse}},
                        samples, place);
  };
  const Comparison comparison = CompareTwo(window(0.3, 1000, 1), window(0.7, 1000, 2));
  EXPECT_EQ(comparison.answer, Answer::kCannotTell);
  EXPECT_THAT(comparison.reason, HasSubstr("its steps are not known"));
  ASSERT_EQ(comparison.shares.size(), 4u);
  EXPECT_EQ(comparison.shares[0].kind, AmountKind::kPart);
  EXPECT_EQ(comparison.shares[1].name, "job.py:4 parse");
  EXPECT_NEAR(comparison.shares[1].base, 0.3, 1e-12);
  EXPECT_NEAR(comparison.shares[1].now, 0.7, 1e-12);
  EXPECT_EQ(comparison.shares[3].name, "lib.py:9 read") << "a line is not repeated as a kind of its own";
  // Few samples, and a small difference.
  EXPECT_THAT(CompareTwo(window(0.3, 40, 1), window(0.7, 40, 2)).shares, IsEmpty());
  EXPECT_THAT(CompareTwo(window(0.3, 9000, 1), window(0.34, 9000, 2)).shares, IsEmpty());
  RunNumbers other = window(0.7, 1000, 2);
  other.identity.pid = 8;
  EXPECT_EQ(CompareTwo(window(0.3, 1000, 1), other).shares.size(), 4u) << "another process of the program";
  other.identity.command = "python other.py";
  EXPECT_THAT(CompareTwo(window(0.3, 1000, 1), other).shares, IsEmpty()) << "another program";
}

// Lines have as many samples as chance gives them, in runs of ten.
TEST(WindowCompareTest, Compare_EqualWindowsWithoutSteps_HaveNoRows) {
  std::mt19937 random(5);
  const auto window = [&](int64_t place) {
    constexpr int kSamples = 300, kLines = 4;
    std::array<double, kLines> counts{};
    for (int i = 0; i < kSamples / 10; ++i) counts[random() % kLines] += 10;
    std::vector<Amount> shares;
    for (int i = 0; i < kLines; ++i) {
      shares.push_back({AmountKind::kOwnLine, "a.py:" + std::to_string(i), counts[static_cast<size_t>(i)] / kSamples});
    }
    return WithoutSteps(shares, kSamples, place);
  };
  int rows = 0;
  for (int64_t i = 0; i < 200; ++i)
    rows += static_cast<int>(CompareTwo(window(2 * i + 1), window(2 * i + 2)).shares.size());
  EXPECT_LE(rows, 8) << "of 800";
}

TEST(WindowErrorTest, WanderingError_FewValues_IsUnknown) {
  EXPECT_EQ(WanderingError({1, 2, 3}, 1).degrees, 0);
  EXPECT_EQ(WanderingErrorOfMean({1, 2, 3}).degrees, 0);
  EXPECT_EQ(WanderingError(std::vector<double>(40, 2.0), 1).error, 0);
}

TEST(WindowErrorTest, PooledWindows_ThatDiffer_HaveTheErrorOfTheirScatter) {
  const WindowValue near = PooledWindows({{1, {0.1, 9}}, {1, {0.1, 9}}});
  EXPECT_NEAR(near.error.error, 0.1 / std::sqrt(2), 1e-9);
  EXPECT_FALSE(near.error.wanders);
  const WindowValue far = PooledWindows({{1, {0.1, 9}}, {2, {0.1, 4}}});
  EXPECT_NEAR(far.seconds, std::sqrt(2), 1e-9);
  EXPECT_NEAR(far.error.error, std::log(2) / 2, 1e-9);
  EXPECT_EQ(far.error.degrees, 1) << "two windows show their scatter once";
  EXPECT_TRUE(far.error.wanders);
}

TEST(WindowErrorTest, BlockMedians_ShorterBlockAtTheEnd_IsLeftOut) {
  EXPECT_EQ(BlockMedians(std::vector<double>{3, 1, 2, 6, 5, 4, 9}, 3), (std::vector<double>{2, 5}));
  EXPECT_EQ(BlockMedians(std::vector<double>{}, 3), std::vector<double>());
}

TEST(WindowErrorTest, IsWindow_NamesOfWindows) {
  const auto is_window = [](const std::string& window) {
    RunIdentity identity;
    identity.window = window;
    return IsWindow(identity);
  };
  for (const char* window : {"capture 1", "last=30s", "60s+5s", "attached all"})
    EXPECT_TRUE(is_window(window)) << window;
  for (const char* window : {"", "auto", "all", "steps=10:20", "nvtx:a+b"}) EXPECT_FALSE(is_window(window)) << window;
}

}  // namespace
}  // namespace tbprof
