// SPDX-License-Identifier: Apache-2.0
//
// Error rates and power on simulated runs; seeds are fixed, so a bound holds or does not. Full tables:
// tests/bench/gate_power.cc.
#include "launcher/gate/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "launcher/gate/bootstrap.h"
#include "launcher/gate/compare.h"
#include "tests/unit/launcher/gate_simulation.h"

namespace tbprof {
namespace {

struct Tally {
  size_t worse = 0, better = 0, equivalent = 0, cannot_tell = 0;
};

Tally Repeat(const Simulation& simulation, size_t times, bool paired = false) {
  Simulator simulator(7);
  Tally tally;
  for (size_t i = 0; i < times; ++i) {
    auto [base, now] = simulator.Sides(simulation);
    const Answer answer = Compare(std::move(base), std::move(now), {.paired = paired}).answer;
    ++(answer == Answer::kWorse        ? tally.worse
       : answer == Answer::kBetter     ? tally.better
       : answer == Answer::kEquivalent ? tally.equivalent
                                       : tally.cannot_tell);
  }
  return tally;
}

std::vector<RunValue> Values(const std::vector<double>& logs) {
  std::vector<RunValue> values;
  for (const double log : logs) values.push_back({log, 0, static_cast<int64_t>(values.size())});
  return values;
}

TEST(GateStatisticsTest, Decide_SameProgram_WorseInAtMostOnePercent) {
  for (const size_t runs : {2, 3, 5, 10}) {
    const Tally tally = Repeat({.steps = 40, .runs = runs}, 600);
    EXPECT_LE(tally.worse, 6u) << runs;
    EXPECT_LE(tally.better, 6u) << runs;
  }
  EXPECT_LE(Repeat({.steps = 40, .runs = 10}, 600, true).worse, 6u);
}

TEST(GateStatisticsTest, Decide_SameProgramTenPairs_EquivalentInNinetyPercent) {
  EXPECT_GE(Repeat({.run_sd = 0.01, .steps = 100}, 200).equivalent, 180u);
  EXPECT_GE(Repeat({.run_sd = 0.01, .steps = 100}, 200, true).equivalent, 180u);
}

TEST(GateStatisticsTest, Decide_Slower_WorseInNinetyFivePercent) {
  EXPECT_GE(Repeat({.run_sd = 0.004, .runs = 10, .change = 0.01}, 200).worse, 190u);
  EXPECT_GE(Repeat({.run_sd = 0.01, .runs = 10, .change = 0.03}, 200).worse, 190u);
  EXPECT_GE(Repeat({.run_sd = 0.01, .step_sd = 0.01, .runs = 40, .change = 0.01}, 200).worse, 190u);
}

TEST(GateStatisticsTest, Decide_MachineDisturbed_IsNoSlowerProgram) {
  EXPECT_EQ(Repeat({.steps = 40, .drift = 0.05}, 200).worse, 0u);
  // With this order a drift looks like a change; only its trend within each side reveals it.
  EXPECT_LE(Repeat({.steps = 40, .drift = 0.05, .order = Order::kBaseFirst}, 200).worse, 8u);
  EXPECT_EQ(Repeat({.steps = 40, .warming = 0.15}, 200).worse, 0u);
  EXPECT_EQ(Repeat({.steps = 40, .neighbour = 0.08}, 200).worse, 0u);
}

TEST(GateStatisticsTest, EstimateChange_DriftBaseFirst_IsTrendAndCannotTell) {
  std::vector<RunValue> base, now;
  Simulator simulator(3);
  std::normal_distribution<double> noise(0, 0.002);
  for (int64_t i = 0; i < 20; ++i) {
    (i < 10 ? base : now).push_back({0.005 * static_cast<double>(i) + noise(simulator.random()), 0, i});
  }
  const Estimate estimate = EstimateChange(base, now);
  EXPECT_TRUE(estimate.apart);
  EXPECT_TRUE(estimate.trend);
  EXPECT_NE(Decide(estimate, 0.03).answer, Answer::kWorse);
  EXPECT_NEAR(estimate.change, 0, 0.01);
}

TEST(GateStatisticsTest, EstimateChange_FewRunsInTurns_AreSeenToBe) {
  const auto at = [](std::vector<int64_t> times) {
    std::vector<RunValue> values;
    for (const int64_t time : times) values.push_back({0.001 * static_cast<double>(time % 2), 0, time});
    return values;
  };
  EXPECT_TRUE(EstimateChange(at({0, 2, 4}), at({1, 3, 5})).in_turns);
  EXPECT_FALSE(EstimateChange(at({0, 1, 2}), at({3, 4, 5})).in_turns);
  EXPECT_FALSE(EstimateChange(at({0, 3, 4}), at({1, 2, 5})).in_turns);
}

TEST(GateStatisticsTest, EstimateChange_FirstRunsWarm_AreLeftOut) {
  const Estimate estimate =
      EstimateChange(Values({0.2, 0.001, -0.001, 0, 0.001, -0.001}), Values({0.25, 0.002, -0.002, 0, 0.001, -0.001}));
  EXPECT_TRUE(estimate.warming);
  EXPECT_EQ(estimate.runs, 5u);
  EXPECT_NEAR(estimate.change, 0, 1e-3);
}

TEST(GateStatisticsTest, EstimateChange_OneRunASide_IsNotKnown) {
  const Estimate alone = EstimateChange(Values({0}), Values({0.5}));
  EXPECT_FALSE(alone.known);
  const Decision unknown = Decide(alone, 0.03);
  EXPECT_EQ(unknown.answer, Answer::kCannotTell);
  EXPECT_GE(unknown.more_runs.value_or(0), 1u);
}

TEST(GateStatisticsTest, EstimateChange_OneRunOnASide_HasTheScatterOfTheOther) {
  const std::vector<RunValue> base = Values({0, 0.01, -0.01, 0.005, -0.005});
  EXPECT_EQ(Decide(EstimateChange(base, Values({0.2})), 0.03).answer, Answer::kWorse);
  EXPECT_EQ(Decide(EstimateChange(base, Values({0.015})), 0.03).answer, Answer::kCannotTell);
}

TEST(GateStatisticsTest, EstimateChange_RunsThatAgreeByChance_AreNoSurerThanTheirSteps) {
  std::vector<RunValue> base = Values({0, 0, 0}), now = Values({0.02, 0.02, 0.02});
  for (RunValue& run : base) run.error = 0.02;
  for (RunValue& run : now) run.error = 0.02;
  EXPECT_GE(EstimateChange(base, now).error, 0.02 * std::sqrt(2.0 / 3) * 0.99);
  EXPECT_NE(Decide(EstimateChange(base, now), 0.03).answer, Answer::kWorse);
}

TEST(GateStatisticsTest, EstimatePairedChange_SharedDrift_IsNotInTheError) {
  const Estimate estimate =
      EstimatePairedChange(Values({0, 0.1, 0.2, 0.3, 0.4}), Values({0.02, 0.121, 0.219, 0.32, 0.42}));
  EXPECT_NEAR(estimate.change, 0.02, 1e-9);
  EXPECT_LT(estimate.error, 0.001);
  EXPECT_EQ(Decide(estimate, 0.03).answer, Answer::kWorse);
}

TEST(GateStatisticsTest, RunsNeeded_AgreesWithSimulation) {
  const std::optional<uint64_t> needed = RunsNeeded(std::log1p(0.01), 0.01, 0.005, false);
  ASSERT_TRUE(needed.has_value());
  // (t(0.005) + t(0.05))^2 * 2 at a change of one standard deviation, by normal quantiles 35.6.
  EXPECT_GE(*needed, 30u);
  EXPECT_LE(*needed, 45u);
  EXPECT_LT(*RunsNeeded(std::log1p(0.03), 0.01, 0.03, false), 11u);
  EXPECT_FALSE(RunsNeeded(std::log1p(0.002), 5, 0.003, false).has_value());
}

TEST(GateStatisticsTest, BlockError_CorrelatedSteps_IsTheScatterOfRuns) {
  for (const double correlation : {0.0, 0.5, 0.9}) {
    Simulator simulator(11);
    const Simulation simulation{.run_sd = 0, .step_sd = 0.05, .correlation = correlation, .steps = 1000};
    std::vector<double> logs;
    double error = 0;
    constexpr int kRuns = 200;
    for (int i = 0; i < kRuns; ++i) {
      const RunNumbers run = simulator.Run(simulation, 0, i);
      logs.push_back(std::log(TrimmedMean(run.steps_s)));
      error += BlockError(run.steps_s, 1) / kRuns;
    }
    double square = 0;
    for (const double log : logs) square += (log - Mean(logs)) * (log - Mean(logs));
    const double scatter = std::sqrt(square / (kRuns - 1));
    EXPECT_GT(error, 0.75 * scatter) << correlation;
    EXPECT_LT(error, 1.2 * scatter) << correlation;
  }
}

TEST(GateStatisticsTest, TrimmedMean_Pauses_AreNotInIt) {
  std::vector<double> steps(100, 1.0);
  for (size_t i = 0; i < 9; ++i) steps[i * 10] = 50;
  EXPECT_DOUBLE_EQ(TrimmedMean(steps), 1.0);
  EXPECT_EQ(TrimmedMean({}), 0);
  EXPECT_EQ(BlockError(std::vector<double>{1, 2, 3}, 1), 0);
}

TEST(GateStatisticsTest, Holm_ManyRows_KeepsThoseBelowTheirLevel) {
  EXPECT_EQ(Holm(std::vector<double>{0.02, 0.001, 0.9}, 0.05), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(Holm(std::vector<double>{0.03, 0.02, 0.9}, 0.05), (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace tbprof
