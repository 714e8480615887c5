// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "launcher/gate/blame.h"
#include "tests/unit/launcher/gate_simulation.h"

namespace tbprof {
namespace {

using ::testing::HasSubstr;

constexpr Simulation kThreeRuns{.run_sd = 0.003, .runs = 3};

const QuantityResult* Find(const Comparison& comparison, std::string_view name) {
  for (const QuantityResult& quantity : comparison.quantities) {
    if (quantity.name == name) return &quantity;
  }
  return nullptr;
}

std::pair<Side, Side> Sides(const Simulation& simulation = kThreeRuns) { return Simulator(5).Sides(simulation); }

void ForEach(std::pair<Side, Side>* sides, const std::function<void(RunNumbers*, bool is_new)>& change) {
  for (RunNumbers& run : sides->first.runs) change(&run, false);
  for (RunNumbers& run : sides->second.runs) change(&run, true);
}

Comparison CompareSides(const std::pair<Side, Side>& sides, const CompareOptions& options = {}) {
  return Compare(sides.first, sides.second, options);
}

TEST(CompareTest, Compare_WhatDiffers_CannotTellAndNamesIt) {
  const std::pair<std::string_view, std::function<void(RunNumbers*)>> differences[] = {
      {"GPUs differs: H100 and H200", [](RunNumbers* run) { run->identity.devices = {"H200"}; }},
      {"CPU model differs", [](RunNumbers* run) { run->identity.cpu_model = "another"; }},
      {"--window) differs: auto and last=30s", [](RunNumbers* run) { run->identity.window = "last=30s"; }},
      {"ranks differs: 2 and 4", [](RunNumbers* run) { run->identity.world_size = 4; }},
      {"step is differs: Optimizer.step and NVTX", [](RunNumbers* run) { run->identity.steps_source = "NVTX"; }},
      {"steps differs: 30 and 200", [](RunNumbers* run) { run->steps = 30; }},
      {"killed by signal 9", [](RunNumbers* run) { run->unfit = "its command failed: killed by signal 9"; }},
      {"3 regular steps", [](RunNumbers* run) { run->no_times = "3 regular steps; at least 10 are needed"; }},
      {"program differs", [](RunNumbers* run) { run->identity.command = "python3 eval.py"; }},
  };
  for (const auto& [reason, change] : differences) {
    std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      run->identity.devices = {"H100"};
      run->identity.window = "auto";
      run->identity.world_size = 2;
      run->identity.steps_source = "Optimizer.step";
      run->identity.command = "/usr/bin/python3 -u train.py";
      if (is_new) change(run);
    });
    const Comparison comparison = CompareSides(sides);
    EXPECT_EQ(comparison.answer, Answer::kCannotTell) << reason;
    EXPECT_THAT(comparison.reason, HasSubstr(reason));
    EXPECT_TRUE(comparison.blame.empty()) << reason;
  }
}

// A hosted runner has another CPU from job to job.
TEST(CompareTest, Compare_CpuModelDiffers_ComparesCountsAlone) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->counts = {{"allocations", is_new ? 2100.0 : 2000.0, CountBasis::kSteps}};
    run->wall_s = 10;
    if (is_new) run->identity.cpu_model = "another";
  });
  const Comparison comparison = CompareSides(sides);
  ASSERT_NE(Find(comparison, "allocations_per_step"), nullptr);
  EXPECT_EQ(Find(comparison, "allocations_per_step")->answer, Answer::kWorse);
  for (const std::string_view time : {"step_time", "wall_time"}) {
    EXPECT_EQ(Find(comparison, time)->answer, Answer::kCannotTell);
    EXPECT_THAT(Find(comparison, time)->reason, HasSubstr("CPU model differs"));
  }
}

TEST(CompareTest, Compare_BaselineOfSeveralMachines_TakesRunsLikeTheNewOnes) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->of_baseline = !is_new;
    run->identity.steps_source = "Optimizer.step";
  });
  for (size_t i = 0; i < 4; ++i) sides.first.runs[i].identity.cpu_model = "another";
  sides.first.runs[4].identity.steps_source = "NVTX";
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.answer, Answer::kWorse) << comparison.reason;
  EXPECT_EQ(comparison.base.runs.size(), 5u);
  EXPECT_THAT(comparison.warnings,
              testing::Contains(HasSubstr("1 of 10 runs of the baseline left out for counts: what a step is differs")));
  EXPECT_THAT(comparison.warnings, testing::Contains(HasSubstr("5 of 10 runs of the baseline left out for times")));
}

// Counts do not depend on the CPU: that one run of a baseline has it must not make them look exact.
TEST(CompareTest, Compare_BaselineWithOneRunOfThisCpu_CountsOfAllRuns) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0});
  double count = 2000;
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    run->of_baseline = !is_new;
    run->counts = {{"allocations", count += 40, CountBasis::kSteps}};
    run->memory_peak_bytes = 1e8 + count;
    if (!is_new) run->identity.cpu_model = "another";
  });
  sides.first.runs[3].identity.cpu_model = sides.second.runs[0].identity.cpu_model;
  sides.second.runs.resize(1);
  const Comparison comparison = CompareSides(sides);
  const QuantityResult* count_result = Find(comparison, "allocations_per_step");
  ASSERT_NE(count_result, nullptr);
  EXPECT_FALSE(count_result->exact);
  EXPECT_THAT(count_result->reason, HasSubstr("not countable"));
  EXPECT_NE(Find(comparison, "memory_peak")->answer, Answer::kWorse);
  EXPECT_EQ(comparison.base.runs.size(), 1u);
}

// A test suite has no steps; in one run of it some were found.
TEST(CompareTest, Compare_BaselineWithoutSteps_KeepsMemoryOfAllRuns) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->of_baseline = !is_new;
    run->steps = 0;
    run->steps_s.clear();
    run->no_times = "it has no steps";
    run->memory_peak_bytes = is_new ? 2e8 : 1e8;
    run->wall_s = 10;
  });
  sides.first.runs[2].steps = 40;
  sides.first.runs[2].no_times.clear();
  sides.second.runs.resize(2);
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(Find(comparison, "memory_peak")->answer, Answer::kWorse);
  EXPECT_TRUE(Find(comparison, "memory_peak")->exact);
  EXPECT_THAT(comparison.reason, HasSubstr("no steps"));
}

// Each of them is within two steps of the new run, and not of the other.
TEST(CompareTest, Compare_BaselineRunsThatDifferFromEachOther_NewestDecide) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->of_baseline = !is_new;
    run->identity.steps_source = is_new ? "Python line t.py:43 main" : "Python line t.py:41 main";
    run->steps = is_new ? 60 : 62;
  });
  sides.first.runs[0].identity.steps_source = "Python line t.py:40 main";
  sides.first.runs[0].steps = 58;
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.answer, Answer::kWorse) << comparison.reason;
  EXPECT_EQ(comparison.base.runs.size(), 9u);
}

TEST(CompareTest, Compare_BaselineOfAnEarlierProgram_IsLeftOut) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->of_baseline = !is_new;
    run->identity.command = "python3 main.py";
  });
  sides.first.runs[0].identity.command = "python3 train.py";
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.answer, Answer::kWorse) << comparison.reason;
  EXPECT_THAT(comparison.warnings,
              testing::Contains(HasSubstr("1 of 10 runs of the baseline left out: the program differs: train.py")));
}

TEST(CompareTest, Compare_BaselineOfNoneLikeTheNewOnes_KeepsAllAndNamesTheDifference) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->of_baseline = !is_new;
    run->identity.world_size = is_new ? 2 : 4;
  });
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.base.runs.size(), 10u);
  EXPECT_THAT(comparison.reason, HasSubstr("the number of ranks differs: 4 and 2"));
}

TEST(CompareTest, Compare_RunsThatWereNamed_AreNeverLeftOut) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  sides.first.runs[0].identity.cpu_model = "another";
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.base.runs.size(), 10u);
  EXPECT_THAT(comparison.reason, HasSubstr("CPU model differs"));
}

TEST(CompareTest, Compare_PathOfTheProgramDiffers_WarnsAndAnswers) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.1});
  ForEach(&sides,
          [](RunNumbers* run, bool is_new) { run->identity.command = is_new ? "new/bench -n 5" : "old/bench -n 5"; });
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.answer, Answer::kWorse);
  EXPECT_THAT(comparison.warnings, testing::Contains(HasSubstr("the command differs: old/bench")));
}

TEST(CompareTest, Compare_RunOnBothSides_CannotTell) {
  std::pair<Side, Side> sides = Sides();
  ForEach(&sides, [](RunNumbers* run, bool) { run->files = {"/l/summary.json"}; });
  EXPECT_THAT(CompareSides(sides).reason, HasSubstr("on both sides"));
}

TEST(CompareTest, Compare_OneRunASide_DecidesCountsAlone) {
  std::pair<Side, Side> sides = Sides({.runs = 1, .change = 0.5});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->counts = {{"kernels", is_new ? 110.0 : 100.0, CountBasis::kSteps}, {"copied_bytes", 4096, CountBasis::kRun}};
    run->memory_peak_bytes = is_new ? 2e9 : 1e9;
  });
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.answer, Answer::kCannotTell);
  EXPECT_THAT(comparison.reason, HasSubstr("one run a side"));
  EXPECT_TRUE(comparison.quantities.front().more_runs.has_value());
  EXPECT_EQ(Find(comparison, "kernels_per_step")->answer, Answer::kWorse);
  EXPECT_TRUE(Find(comparison, "kernels_per_step")->exact);
  EXPECT_EQ(Find(comparison, "copied_bytes_per_step")->answer, Answer::kEquivalent);
  EXPECT_EQ(Find(comparison, "copied_bytes_per_step")->unit, Unit::kBytes);
  EXPECT_EQ(Find(comparison, "memory_peak")->answer, Answer::kCannotTell);
}

TEST(CompareTest, Compare_CountThatDoesNotRepeat_IsNotCountable) {
  std::pair<Side, Side> sides = Sides();
  double count = 100;
  ForEach(&sides, [&](RunNumbers* run, bool) { run->counts = {{"lock_waits", count *= 1.3, CountBasis::kSteps}}; });
  const QuantityResult result = *Find(CompareSides(sides), "lock_waits_per_step");
  EXPECT_FALSE(result.exact);
  EXPECT_EQ(result.answer, Answer::kCannotTell);
  EXPECT_THAT(result.reason, HasSubstr("not countable"));
}

TEST(CompareTest, Compare_CountOfRunsOfOtherLengths_IsNotCountable) {
  std::pair<Side, Side> sides = Sides({.runs = 1});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->counts = {{"allocations", is_new ? 120.0 : 100.0, CountBasis::kRun}};
    if (is_new) run->steps = 190;
  });
  EXPECT_THAT(Find(CompareSides(sides), "allocations_per_step")->reason, HasSubstr("190 to 200 steps"));
}

TEST(CompareTest, Compare_RecordsDropped_CountsAreNotCountable) {
  std::pair<Side, Side> sides = Sides({.runs = 1});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->counts = {{"kernels", 100, CountBasis::kSteps}};
    if (is_new) run->no_counts = "12 records were dropped";
  });
  EXPECT_THAT(Find(CompareSides(sides), "kernels_per_step")->reason, HasSubstr("12 records"));
}

TEST(CompareTest, Compare_LoopFoundByAnotherLine_IsTheSameIfItsTurnsAreAsMany) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.05});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->identity.steps_source = is_new ? "sampled Python line a.py:24 main" : "Python line a.py:13 assign";
  });
  EXPECT_EQ(CompareSides(sides).answer, Answer::kWorse);
  ForEach(&sides, [](RunNumbers* run, bool is_new) { run->steps += is_new ? 5 : 0; });
  EXPECT_THAT(CompareSides(sides).reason, HasSubstr("what a step is differs"));
}

TEST(CompareTest, Compare_ListsOfStepsMissing_ComparesMedians) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.05});
  sides.first.runs[0].steps_s.clear();
  EXPECT_TRUE(NeedsMedians(sides.first, sides.second));
  EXPECT_EQ(CompareSides(sides).answer, Answer::kWorse);
}

// Gives a run these amounts in each step.
void AddAmounts(RunNumbers* run, const std::vector<Amount>& amounts) {
  run->amounts = amounts;
  run->split_step_s = run->mean_step_s = 0;
  for (const Amount& amount : amounts) {
    if (amount.kind == AmountKind::kPart) run->split_step_s = run->mean_step_s += amount.per_step;
  }
}

struct Planted {
  std::string_view part;
  AmountKind kind;
  std::string_view cause;
};

TEST(CompareTest, Blame_PlantedRegression_NamesItFirst) {
  const Planted planted[] = {
      {"python", AmountKind::kPythonLine, "train.py:8 augment"},
      {"operations", AmountKind::kOperation, "aten::mm"},
      {"kernels", AmountKind::kKernel, "gemm"},
      {"locks", AmountKind::kWait, "sem_wait at q.py:3 get"},
      {"sleep", AmountKind::kWait, "nanosleep at t.py:5 f"},
      {"gil", AmountKind::kPart, "gil"},
      {"disk", AmountKind::kWait, "read at data.py:9 load"},
      {"starvation", AmountKind::kPart, "starvation"},
  };
  for (const Planted& of : planted) {
    std::pair<Side, Side> sides = Sides({.runs = 4});
    double noise = 0.98;
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      noise = noise > 1.02 ? 0.98 : noise + 0.01;
      std::vector<Amount> amounts;
      for (const std::string_view part :
           {"python", "operations", "kernels", "locks", "sleep", "gil", "disk", "starvation", "rest"}) {
        amounts.push_back(
            {AmountKind::kPart, std::string(part), 0.002 * noise + (is_new && part == of.part ? 0.001 : 0)});
      }
      for (const Planted& other : planted) {
        if (other.kind == AmountKind::kPart) continue;
        amounts.push_back(
            {other.kind, std::string(other.cause), 0.002 * noise + (is_new && other.cause == of.cause ? 0.001 : 0)});
        amounts.push_back({other.kind, "another one", 0.001 * noise});
      }
      // A pool idles during the step: this wait is larger than the cause, but is not the cause.
      amounts.push_back({AmountKind::kWait, "pthread_cond_wait at pool", is_new ? 0.030 : 0.010});
      AddAmounts(run, amounts);
    });
    const Comparison comparison = CompareSides(sides);
    ASSERT_FALSE(comparison.blame.empty());
    EXPECT_EQ(comparison.blame[0].name, of.cause);
    EXPECT_EQ(comparison.blame[0].kind, of.kind) << of.cause;
    EXPECT_TRUE(comparison.blame[0].significant) << of.cause;
    EXPECT_NEAR(comparison.difference_s, 0.001, 3e-4);
    EXPECT_LT(std::abs(comparison.unexplained_s), 0.05 * std::abs(comparison.difference_s));
  }
}

// All amounts of a run, with noise. Those of the new side are `ratio` times as long; `added` has its own lengths.
Comparison CompareWith(double ratio, double change, const std::vector<Amount>& added) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 5, .change = change});
  double noise = 0.98;
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    noise = noise > 1.02 ? 0.98 : noise + 0.01;
    const double all = 0.001 * noise * (is_new ? ratio : 1);
    std::vector<Amount> amounts = {{AmountKind::kPart, "operations", 8 * all},
                                   {AmountKind::kPart, "input", 2 * all},
                                   {AmountKind::kOperation, "aten::mm", 6 * all},
                                   {AmountKind::kPythonLine, "net.py:3 forward", 5 * all},
                                   {AmountKind::kOtherLine, "data.py:3 fetch", 2 * all}};
    if (is_new) amounts.insert(amounts.end(), added.begin(), added.end());
    AddAmounts(run, amounts);
  });
  return CompareSides(sides);
}

TEST(CompareTest, Blame_SlowMachineAndANewLine_NamesTheLine) {
  const Comparison comparison = CompareWith(
      1.08, 0.2, {{AmountKind::kPart, "python", 0.0009}, {AmountKind::kPythonLine, "train.py:8 archive", 0.0009}});
  EXPECT_EQ(comparison.blame[0].name, "train.py:8 archive") << "aten::mm is 0.5 ms slower, as all is";
}

TEST(CompareTest, Blame_AllSlowerByTheSame_NamesTheLargest) {
  EXPECT_EQ(CompareWith(1.5, 0.5, {}).blame[0].name, "aten::mm");
}

TEST(CompareTest, Blame_WaitForALoader_NamesItsLine) {
  const std::vector<Amount> added = {{AmountKind::kPart, "input", 0.004},
                                     {AmountKind::kOtherLine, "data.py:9 augment", 0.004}};
  EXPECT_EQ(CompareWith(1, 0.4, added).blame[0].name, "data.py:9 augment");
  // If the step does not wait for the loader, the loader's line is no cause.
  EXPECT_NE(CompareWith(1, 0.4, {{AmountKind::kPart, "python", 0.004}, added[1]}).blame[0].name, "data.py:9 augment");
}

TEST(CompareTest, Blame_CannotTell_NamesWhatChangedInEitherDirection) {
  const Comparison comparison = CompareWith(0.98, 0, {{AmountKind::kOperation, "aten::gelu", 0.0004}});
  ASSERT_NE(comparison.answer, Answer::kWorse);
  EXPECT_EQ(comparison.blame[0].name, "aten::gelu");
}

TEST(CompareTest, Blame_LinesMovedByAnEdit_AreOneRow) {
  std::pair<Side, Side> sides = Sides();
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    AddAmounts(run,
               {{AmountKind::kPart, "python", is_new ? 0.003 : 0.002},
                {AmountKind::kPythonLine, is_new ? "train.py:44 step" : "train.py:41 step", is_new ? 0.0025 : 0.0015},
                {AmountKind::kPythonLine, "train.py:90 main", 0.0005}});
  });
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.blame[0].name, "train.py step");
  EXPECT_NEAR(comparison.blame[0].now - comparison.blame[0].base, 0.001, 1e-9);
}

TEST(CompareTest, Blame_ManyRowsOfNoise_AreRarelySignificant) {
  Simulator simulator(2);
  std::normal_distribution<double> noise(0.001, 0.0002);
  size_t false_rows = 0;
  for (int comparison = 0; comparison < 100; ++comparison) {
    std::pair<Side, Side> sides = simulator.Sides({.steps = 20, .runs = 5});
    ForEach(&sides, [&](RunNumbers* run, bool) {
      std::vector<Amount> amounts;
      for (int i = 0; i < 100; ++i) {
        amounts.push_back({AmountKind::kPythonLine, "f.py:" + std::to_string(i) + " f", noise(simulator.random())});
      }
      AddAmounts(run, amounts);
      run->mean_step_s = 0.1;
    });
    const Comparison compared = CompareSides(sides);
    false_rows += std::ranges::any_of(compared.blame, &BlameRow::significant) ? 1 : 0;
  }
  // Holm's method permits false rows in 5 % of comparisons.
  EXPECT_LE(false_rows, 10u);
}

TEST(CompareTest, WithoutLineNumbers_KeepsOtherNumbers) {
  EXPECT_EQ(WithoutLineNumbers("train.py:42 step"), "train.py step");
  EXPECT_EQ(WithoutLineNumbers("sem_wait at f (a.c:12)"), "sem_wait at f (a.c)");
  EXPECT_EQ(WithoutLineNumbers("at::native::4x"), "at::native::4x");
  EXPECT_EQ(WithoutLineNumbers(":"), ":");
}

}  // namespace
}  // namespace tbprof
