// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "launcher/gate/blame.h"
#include "launcher/gate/cpu_contention.h"
#include "launcher/gate/fail_on.h"
#include "launcher/gate/gate_end.h"
#include "launcher/gate/gate_output.h"
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
      {"steps differs: 30 (program", [](RunNumbers* run) { run->steps = 30; }},
      {"killed by signal 9", [](RunNumbers* run) { run->unfit = "its command failed: killed by signal 9"; }},
      {"3 regular steps", [](RunNumbers* run) { run->no_times = "3 regular steps; at least 10 are needed"; }},
      {"program differs", [](RunNumbers* run) { run->identity.command = "python3 eval.py"; }},
  };
  for (const auto& [reason, change] : differences) {
    std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
    ForEach(&sides, [&, change = change](RunNumbers* run, bool is_new) {
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
    EXPECT_FALSE(comparison.difference_s.has_value()) << reason;
    EXPECT_FALSE(comparison.unexplained_s.has_value()) << reason;
  }
}

// A hosted runner has another CPU from job to job.
TEST(CompareTest, Compare_CpuModelDiffers_ComparesCountsAlone) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->counts = {{"allocations", is_new ? 2100.0 : 2000.0, CountBasis::kSteps}};
    run->wall_s = 10;
    run->amounts = {{AmountKind::kAllocationSite, "train.py:12 main", is_new ? 8192.0 : 4096.0},
                    {AmountKind::kKernel, "gemm", is_new ? 0.002 : 0.001}};
    if (is_new) run->identity.cpu_model = "another";
  });
  const Comparison comparison = CompareSides(sides);
  ASSERT_NE(Find(comparison, "allocations_per_step"), nullptr);
  EXPECT_EQ(Find(comparison, "allocations_per_step")->answer, Answer::kWorse);
  EXPECT_TRUE(Find(comparison, "allocations_per_step")->constant);
  ASSERT_EQ(comparison.blame.size(), 1u);
  EXPECT_EQ(comparison.blame[0].name, "train.py:12 main");
  EXPECT_TRUE(comparison.blame[0].significant);
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
              testing::Contains(HasSubstr("1 of 10 base runs left out for counts: what a step is differs")));
  EXPECT_THAT(comparison.warnings, testing::Contains(HasSubstr("5 of 10 base runs left out for times")));
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
              testing::Contains(HasSubstr("1 of 10 base runs left out: the program differs: main.py (")));
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

// The new side may be a baseline as well: the same rule holds for it.
TEST(CompareTest, Compare_BaselineAsNewSide_LeavesOutWhatDoesNotFit) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool is_new) { run->of_baseline = is_new; });
  sides.second.runs[3].identity.cpu_model = "another";
  sides.second.runs[9].identity.command = "eval";
  const auto expect = [](const Comparison& comparison) {
    EXPECT_EQ(comparison.answer, Answer::kWorse) << comparison.reason;
    EXPECT_EQ(comparison.now.runs.size(), 8u);
    EXPECT_THAT(comparison.warnings,
                testing::Contains(HasSubstr("1 of 10 new runs left out: the program differs: program and eval")));
    EXPECT_THAT(comparison.warnings,
                testing::Contains(HasSubstr("1 of 9 new runs left out for times: the CPU model differs")));
  };
  expect(CompareSides(sides));
  // Two baselines: the newest new run that fits a run of the base decides, and the base follows it.
  for (RunNumbers& run : sides.first.runs) run.of_baseline = true;
  expect(CompareSides(sides));
  sides.first.runs[0].identity.cpu_model = "another";
  const Comparison both = CompareSides(sides);
  EXPECT_EQ(both.base.runs.size(), 9u);
  EXPECT_EQ(both.now.runs.size(), 8u);
}

// A reader has to know which of several runs does not fit.
TEST(CompareTest, Compare_OneOfSeveralNewRunsDiffers_NamesTheRuns) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  const std::string first = sides.second.runs[0].path, other = sides.second.runs[4].path;
  sides.second.runs[4].identity.world_size = 4;
  sides.second.runs[0].identity.world_size = 2;
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(comparison.now.runs.size(), 10u);
  EXPECT_EQ(comparison.reason, "the number of ranks differs: 2 (" + first + ") and 4 (" + other + ")");
}

TEST(CompareTest, WithdrawTimes_Intervals_AreNotKnown) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  ForEach(&sides, [](RunNumbers* run, bool) { run->counts = {{"kernels", 100, CountBasis::kSteps}}; });
  Comparison comparison = CompareSides(sides);
  ASSERT_EQ(comparison.answer, Answer::kWorse);
  WithdrawTimes("other programs used the CPUs", &comparison);
  EXPECT_EQ(comparison.answer, Answer::kCannotTell);
  EXPECT_EQ(Find(comparison, "step_time")->reason, "other programs used the CPUs");
  EXPECT_FALSE(Find(comparison, "step_time")->low.has_value()) << "a rule would be decided by it";
  EXPECT_FALSE(Find(comparison, "step_time")->more_runs.has_value()) << "more runs would not help";
  EXPECT_EQ(Find(comparison, "kernels_per_step")->answer, Answer::kEquivalent);
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
  // Who compares two programs knows it.
  EXPECT_THAT(CompareSides(sides, {.any_program = true}).warnings,
              testing::Not(testing::Contains(HasSubstr("the command differs"))));
}

TEST(CompareTest, Compare_RunOnBothSides_CannotTell) {
  std::pair<Side, Side> sides = Sides();
  sides.second.runs[1] = sides.first.runs[0];
  EXPECT_THAT(CompareSides(sides).reason, HasSubstr("on both sides"));
  sides = Sides();
  sides.second.runs[1] = sides.second.runs[0];
  EXPECT_THAT(CompareSides(sides).reason, HasSubstr("twice on the new side"));
  // Jobs of a CI system have the same paths.
  sides = Sides();
  ForEach(&sides, [](RunNumbers* run, bool) { run->files = {"logs/plugins/profile/ci/vm.summary.json"}; });
  EXPECT_THAT(CompareSides(sides).reason, testing::Not(HasSubstr("this run is")));
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
  ForEach(&sides, [&](RunNumbers* run, bool) { run->counts = {{"io_calls", count *= 1.3, CountBasis::kSteps}}; });
  const QuantityResult result = *Find(CompareSides(sides), "io_calls_per_step");
  EXPECT_FALSE(result.exact);
  EXPECT_EQ(result.answer, Answer::kCannotTell);
  EXPECT_THAT(result.reason, HasSubstr("not countable"));
}

// An early look of several takes a small share of the error probability.
TEST(CompareTest, Compare_IntervalWithinTheMarginAtAnEarlyLook_SaysSo) {
  const Comparison comparison =
      CompareSides(Sides({.run_sd = 0.008, .runs = 5, .change = 0}), {.margin = 0.03, .budget_share = 1e-4});
  EXPECT_EQ(comparison.answer, Answer::kCannotTell);
  EXPECT_THAT(comparison.reason, HasSubstr("the interval lies within 3.0 %"));
}

// Half the steps: the start-up of the program is divided by half as many.
TEST(CompareTest, Compare_OtherNumberOfSteps_NoRuleTakesTheCount) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 5, .change = 0});
  double total = 400'000;
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    run->steps = is_new ? 100 : 200;
    run->counts = {{"allocations", ++total / static_cast<double>(run->steps), CountBasis::kRun}};
  });
  const Comparison comparison = CompareSides(sides);
  const QuantityResult* const count = Find(comparison, "allocations_per_step");
  ASSERT_NE(count, nullptr);
  EXPECT_FALSE(count->low.has_value());
  const RuleResult rule = ApplyFailRule(*ParseFailRule("allocations_per_step>+1%"), comparison);
  EXPECT_EQ(rule.state, RuleResult::State::kCannotTell);
  EXPECT_THAT(rule.text, HasSubstr("not countable"));
}

TEST(CompareTest, Compare_OtherProgramsHadTheCpus_CannotTell) {
  const auto compare = [](double cpus_used, double starved_share) {
    std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.3});
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      run->identity.cpus = 2;
      run->cpus_used = cpus_used;
      run->amounts = {{AmountKind::kPart, "starvation", is_new ? starved_share * 0.3 * run->median_step_s / 1.3 : 0}};
    });
    return CompareSides(sides);
  };
  const Comparison busy = compare(0.6, 0.6);
  EXPECT_EQ(busy.answer, Answer::kCannotTell);
  EXPECT_THAT(busy.reason, HasSubstr("the job used 0.6 of 2 CPUs: other programs had them"));
  EXPECT_EQ(ApplyFailRule(*ParseFailRule("step_time>+3%"), busy).state, RuleResult::State::kCannotTell);
  EXPECT_EQ(compare(1.8, 0.6).answer, Answer::kWorse) << "the job uses up the CPUs itself";
  EXPECT_EQ(compare(0.6, 0.1).answer, Answer::kWorse) << "most of it is other time";
}

// The main thread waits for its workers, and these have no CPU.
TEST(CompareTest, Compare_OtherProgramsHadTheCpusOfWorkers_CannotTell) {
  const auto compare = [](double wait_s, double cpu_s) {
    std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.8});
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      run->identity.cpus = 64;
      run->cpus_allowed = 2;
      run->wall_s = run->AllSteps() * run->median_step_s;
      run->cpu_s = is_new ? cpu_s : 0.6 * *run->wall_s / 1.8;
      run->cpus_used = *run->cpu_s / *run->wall_s;
      run->cpu_wait_s = is_new ? wait_s * *run->wall_s : 0;
    });
    return CompareSides(sides);
  };
  const double same_cpu_s = 0.6 * *compare(0, 1).now.runs[0].wall_s / 1.8 / 1.8;
  const Comparison busy = compare(1.2, same_cpu_s);
  EXPECT_EQ(busy.answer, Answer::kCannotTell);
  EXPECT_THAT(busy.reason, HasSubstr("other programs had them"));
  EXPECT_EQ(compare(0.02, same_cpu_s).answer, Answer::kWorse) << "it sleeps, or waits for something else";
  EXPECT_EQ(Find(busy, "cpu_time")->reason.find("other programs"), std::string::npos) << "the clock does not matter";
}

TEST(CompareTest, Compare_MoreCpuTime_IsAQuantityOfItsOwn) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10});
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    run->wall_s = 10;
    run->cpu_s = (is_new ? 12 : 10) * run->median_step_s;
  });
  const Comparison comparison = CompareSides(sides);
  EXPECT_EQ(Find(comparison, "cpu_time")->answer, Answer::kWorse);
  EXPECT_EQ(ApplyFailRule(*ParseFailRule("cpu_time>+10%"), comparison).state, RuleResult::State::kFails);
  EXPECT_NE(comparison.answer, Answer::kWorse) << "the step takes as long as before";
}

// The answer alone would not be sure; a rule takes the interval.
TEST(CompareTest, Compare_OtherProgramsHadTheCpusOfNoisyRuns_NoRuleFails) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.08, .runs = 10, .change = 0.3});
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    run->identity.cpus = 2;
    run->cpus_used = 0.6;
    run->amounts = {{AmountKind::kPart, "starvation", is_new ? 0.25 * run->median_step_s : 0}};
  });
  const Comparison busy = CompareSides(sides);
  EXPECT_EQ(busy.answer, Answer::kCannotTell);
  EXPECT_EQ(ApplyFailRule(*ParseFailRule("step_time>+3%"), busy).state, RuleResult::State::kCannotTell);
}

// Every tenth step became six times as long: the typical step did not.
TEST(CompareTest, Compare_SomeStepsMuchLonger_IsWorse) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10});
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    if (is_new) run->mean_step_s *= 1.5;
  });
  Comparison worse = CompareSides(sides);
  EXPECT_EQ(worse.answer, Answer::kWorse);
  EXPECT_THAT(AnswerLine(worse), HasSubstr("worse: some steps take much longer: the mean step changes by +5"));
  const RuleResult rule = ApplyFailRule(*ParseFailRule("step_time>+3%"), worse);
  EXPECT_EQ(rule.state, RuleResult::State::kFails) << rule.text;
  EXPECT_EQ(ApplyFailRule(*ParseFailRule("step_time>+80%"), worse).state, RuleResult::State::kHolds);
  EXPECT_EQ(ApplyFailRule(*ParseFailRule("step_time_mean>+3%"), worse).state, RuleResult::State::kFails);
}

// Irregular steps are in neither.
TEST(CompareTest, Compare_SameStepsInALongerRun_IsNotEquivalent) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10});
  EXPECT_EQ(CompareSides(sides).answer, Answer::kEquivalent);
  ForEach(&sides, [&](RunNumbers* run, bool is_new) { run->wall_s = (is_new ? 14 : 10) * run->median_step_s; });
  const Comparison longer = CompareSides(sides);
  EXPECT_EQ(longer.answer, Answer::kCannotTell);
  EXPECT_THAT(longer.reason, HasSubstr("the whole run takes 40 % longer"));
}

// A program without steps: the run is the unit anyway.
TEST(CompareTest, Compare_NoStepsOnBothSides_ComparesTheWholeRuns) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.5});
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    run->wall_s = 100 * run->median_step_s;
    run->steps = run->irregular_steps = 0;
    run->steps_s.clear();
    run->median_step_s = run->mean_step_s = run->split_step_s = 0;
    run->identity.steps_source.clear();
    run->no_times = "its steps are not known: nothing repeats";
    run->counts.clear();
    run->memory_peak_bytes = 1e8;
    run->identity.window = "auto";
    run->amounts = {{AmountKind::kFunction, "lookup", is_new ? 0.6 * *run->wall_s : 0.01 * *run->wall_s, 50},
                    {AmountKind::kFunction, "parse", 0.3 * *run->wall_s / (is_new ? 1.5 : 1), 50}};
  });
  const Comparison slower = CompareSides(sides);
  EXPECT_TRUE(slower.whole_runs);
  EXPECT_EQ(slower.answer, Answer::kWorse) << slower.reason;
  EXPECT_THAT(AnswerLine(slower), HasSubstr("worse: the run takes 49.9 % longer"));
  ASSERT_FALSE(slower.blame.empty());
  EXPECT_EQ(slower.blame[0].name, "lookup");
  const RuleResult rule = ApplyFailRule(*ParseFailRule("wall_time>+10%"), slower);
  EXPECT_EQ(rule.state, RuleResult::State::kFails) << rule.text;
  EXPECT_TRUE(rule.of_answer);
  EXPECT_THAT(ApplyFailRule(*ParseFailRule("step_time>+10%"), slower).text, HasSubstr("use wall_time"));
  Comparison by_memory = slower;
  ApplyRules({*ParseFailRule("memory_peak>+90%")}, false, &by_memory);
  EXPECT_EQ(by_memory.gate, GateState::kPasses) << "its wall time was not asked for";
  ForEach(&sides, [](RunNumbers* run, bool) { run->identity.window = "attached all"; });
  EXPECT_EQ(CompareSides(sides).answer, Answer::kCannotTell) << "somebody chose its length";
  ForEach(&sides, [](RunNumbers* run, bool) { run->identity.window = "auto"; });
  // One with steps among them: what is compared with what, is not known.
  sides.first.runs[0].steps = 20;
  EXPECT_EQ(CompareSides(sides).answer, Answer::kCannotTell);
}

// Under load: other programs cannot explain a change that is large and has no waits for a CPU.
TEST(CompareTest, IsClearUnderLoad_LargeChangeWithKnownWaits_Is) {
  const auto is_clear = [](double slower, bool waits_known) {
    std::pair<Side, Side> sides = Sides({.run_sd = 0.01, .runs = 5, .change = slower});
    ForEach(&sides, [&](RunNumbers* run, bool) {
      run->cpu_s = 10;
      run->wall_s = 11;
      run->cpus_allowed = 2;
      if (waits_known) run->cpu_wait_s = 0.1;
    });
    return IsClearUnderLoad(CompareSides(sides));
  };
  EXPECT_TRUE(is_clear(1.0, true));
  EXPECT_FALSE(is_clear(1.0, false)) << "waits for a CPU are not known";
  EXPECT_FALSE(is_clear(0.1, true)) << "caches and clock rates depend on load, too";
  EXPECT_FALSE(is_clear(0, true));
}

// Where a loop's steps begin and end is found from records: the number of steps may differ by chance.
TEST(CompareTest, Compare_TotalsEqualButAStepMore_AreEqual) {
  const auto compare = [](double new_total) {
    std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 3});
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      run->steps = run->path.back() % 2 == 0 ? 118 : 119;
      const double total = is_new ? new_total : 33710;
      run->counts = {{"allocations", total / static_cast<double>(run->steps), CountBasis::kRun}};
    });
    return *Find(CompareSides(sides), "allocations_per_step");
  };
  const QuantityResult same = compare(33710);
  EXPECT_TRUE(same.exact) << same.reason;
  EXPECT_EQ(same.answer, Answer::kEquivalent);
  EXPECT_TRUE(same.constant);
  EXPECT_NEAR(*same.change, 0, 1e-9);
  const QuantityResult more = compare(36145);
  EXPECT_TRUE(more.exact);
  EXPECT_EQ(more.answer, Answer::kWorse);
  EXPECT_NEAR(*more.low, 36145.0 / 33710 - 1, 0.009);
  EXPECT_NEAR(*more.high, 36145.0 / 33710 - 1, 0.009);
}

TEST(CompareTest, Compare_StepsDiffer_RangeHasBothViews) {
  std::pair<Side, Side> sides = Sides({.runs = 1});
  ForEach(&sides, [&](RunNumbers* run, bool is_new) {
    run->steps = is_new ? 102 : 100;
    run->counts = {{"allocations", is_new ? 1100.0 / 102 : 10.0, CountBasis::kRun}};
  });
  const QuantityResult result = *Find(CompareSides(sides), "allocations_per_step");
  EXPECT_NEAR(*result.low, 11.0 / 1.02 / 10 - 1, 1e-9);
  EXPECT_NEAR(*result.high, 0.1, 1e-9);
  EXPECT_NEAR(*result.change, *result.low, 1e-9);
}

// How often a thread waits for a lock depends on timing: few waits differ by chance.
TEST(CompareTest, Compare_LockWaits_AreComparedByTheirScatter) {
  const auto compare = [](size_t runs, double base, double now) {
    std::pair<Side, Side> sides = Sides({.runs = runs});
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      run->counts = {{"lock_waits", (is_new ? now : base) / 200, CountBasis::kRun}};
    });
    return *Find(CompareSides(sides), "lock_waits_per_step");
  };
  EXPECT_EQ(compare(1, 2, 3).answer, Answer::kCannotTell);
  EXPECT_THAT(compare(1, 2, 3).reason, HasSubstr("one run a side"));
  EXPECT_EQ(compare(3, 2, 3).answer, Answer::kCannotTell) << "the same in all runs by chance";
  EXPECT_EQ(compare(3, 2000, 3000).answer, Answer::kWorse);
  EXPECT_EQ(compare(1, 0, 0).answer, Answer::kEquivalent);
}

TEST(CompareTest, Compare_CountOfRunsOfOtherLengths_IsNotCountable) {
  std::pair<Side, Side> sides = Sides({.runs = 1});
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    run->counts = {{"allocations", is_new ? 120.0 : 100.0, CountBasis::kRun}};
    if (is_new) run->steps = 180;
  });
  EXPECT_THAT(Find(CompareSides(sides), "allocations_per_step")->reason, HasSubstr("180 to 200 steps"));
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
    ASSERT_TRUE(comparison.difference_s.has_value() && comparison.unexplained_s.has_value());
    EXPECT_NEAR(*comparison.difference_s, 0.001, 3e-4);
    EXPECT_LT(std::abs(*comparison.unexplained_s), 0.05 * std::abs(*comparison.difference_s));
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

TEST(CompareTest, Compare_RanksWaitForOne_NamesIt) {
  const auto compare = [](std::string_view part, const std::vector<int64_t>& ranks) {
    std::pair<Side, Side> sides = Sides({.runs = ranks.size(), .change = 0.5});
    size_t next = 0;
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      AddAmounts(run, {{AmountKind::kPart, std::string(part), is_new ? 0.004 : 0.001},
                       {AmountKind::kPart, "operations", 0.002}});
      if (!is_new || ranks[next] < 0) return;
      run->waits_for_rank = ranks[next++];
      run->waits_for = "rank 1, mostly at train.py:10 tokenize";
    });
    return CompareSides(sides);
  };
  const Comparison comparison = compare("collectives", {1, 1, 1});
  EXPECT_EQ(comparison.waits_for_rank, 1);
  EXPECT_EQ(comparison.waits_for, "rank 1, mostly at train.py:10 tokenize");
  EXPECT_EQ(compare("collectives", {1, 0, 1}).waits_for_rank, std::nullopt) << "another one in each run";
  EXPECT_EQ(compare("collectives", {-1, -1}).waits_for_rank, std::nullopt);
  EXPECT_EQ(compare("python", {1, 1}).waits_for_rank, std::nullopt) << "the difference is not in such waits";
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

// The change added a call, and moved the lines below it.
TEST(CompareTest, Blame_CallAddedAboveOtherLines_IsNamed) {
  std::pair<Side, Side> sides = Sides();
  ForEach(&sides, [](RunNumbers* run, bool is_new) {
    AddAmounts(run, {{AmountKind::kPart, "operations", is_new ? 0.003 : 0.002},
                     {AmountKind::kOwnLine, is_new ? "train.py:82 main" : "train.py:79 main", 0.0012},
                     {AmountKind::kOwnLine, is_new ? "train.py:79 main" : "train.py:82 main", 0.0001},
                     {AmountKind::kOwnLine, "train.py:90 main", is_new ? 0.001 : 0}});
  });
  const Comparison comparison = CompareSides(sides);
  const auto lines = BlameOf(comparison, AmountKind::kOwnLine, 10);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0]->name, "train.py:90 main");
  for (const BlameRow* row : lines) EXPECT_GE(row->now, row->base - 0.0002) << row->name << " is not faster";
}

// A summary lists 20 lines of a thread: one that it leaves out may be as long as the least of them.
TEST(CompareTest, Blame_LineBelowTheListed_IsNotZero) {
  const auto compare = [](size_t listed) {
    std::pair<Side, Side> sides = Sides();
    ForEach(&sides, [&](RunNumbers* run, bool is_new) {
      std::vector<Amount> amounts = {{AmountKind::kPart, "python", 0.01}};
      for (size_t i = 1; i < listed; ++i) {
        amounts.push_back({AmountKind::kPythonLine, "f.py:" + std::to_string(i) + " f", 0.0004});
      }
      amounts.push_back({AmountKind::kPythonLine, is_new ? "g.py:1 new" : "f.py:99 f", 0.0004});
      AddAmounts(run, amounts);
    });
    const Comparison comparison = CompareSides(sides);
    const auto found = std::ranges::find(comparison.blame, "g.py:1 new", &BlameRow::name);
    return found == comparison.blame.end() ? BlameRow() : *found;
  };
  const BlameRow full = compare(20), short_list = compare(10);
  EXPECT_FALSE(full.base_listed);
  EXPECT_TRUE(full.now_listed);
  EXPECT_FALSE(full.significant) << "it may have been as long before";
  EXPECT_TRUE(short_list.base_listed);
  EXPECT_TRUE(short_list.significant);
}

// Without a split there are no parts that could explain the difference.
TEST(CompareTest, Blame_StepsNotSplit_UnexplainedIsNotKnown) {
  std::pair<Side, Side> sides = Sides({.run_sd = 0.003, .runs = 10, .change = 0.2});
  const Comparison comparison = CompareSides(sides);
  EXPECT_TRUE(comparison.difference_s.has_value());
  EXPECT_FALSE(comparison.unexplained_s.has_value());
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
