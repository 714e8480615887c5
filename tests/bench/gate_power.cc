// SPDX-License-Identifier: Apache-2.0
//
// How often the gate is wrong, and how often it sees a change, on simulated runs: docs/gate.md.
//
//   build/bench/gate_power > docs/data/gate_power.csv
//
// Beside it two ways that other tools compare: Student's t over all steps as if they were independent, and the
// percentiles of a bootstrap over runs and blocks of steps. Deterministic.
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/gate/compare.h"
#include "tests/unit/launcher/gate_simulation.h"

namespace tbprof {
namespace {

constexpr size_t kResamples = 400;

struct Scenario {
  std::string_view name;
  Simulation simulation;
  size_t comparisons;
  bool others = false;  // the other ways as well
};

struct Counts {
  size_t of[4] = {};
  void Add(Answer answer) { ++of[static_cast<size_t>(answer)]; }
};

// Worse or better by a t of all steps, else cannot tell.
Answer ByAllSteps(const Side& base, const Side& now) {
  double mean[2] = {}, variance[2] = {}, count[2] = {};
  for (const bool is_new : {false, true}) {
    std::vector<double> steps;
    for (const RunNumbers& run : (is_new ? now : base).runs) {
      steps.insert(steps.end(), run.steps_s.begin(), run.steps_s.end());
    }
    mean[is_new] = Mean(steps);
    for (const double step : steps) variance[is_new] += (step - mean[is_new]) * (step - mean[is_new]);
    count[is_new] = static_cast<double>(steps.size());
    variance[is_new] /= count[is_new] - 1;
  }
  const double t = (mean[1] - mean[0]) / std::sqrt(variance[0] / count[0] + variance[1] / count[1]);
  const double bound = boost::math::quantile(boost::math::normal(), 1 - kWorseLevel);
  return t > bound ? Answer::kWorse : t < -bound ? Answer::kBetter : Answer::kCannotTell;
}

// Log of the mean step of runs that are drawn from a side; each run's own chance by its block error.
double Resample(const std::vector<RunValue>& runs, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  double sum = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunValue& run = runs[(*random)() % runs.size()];
    sum += run.log + run.error * normal(*random);
  }
  return sum / static_cast<double>(runs.size());
}

Answer ByPercentiles(const Side& base, const Side& now, std::mt19937_64* random) {
  const std::vector<RunValue> base_runs = StepTimes(base, false), new_runs = StepTimes(now, false);
  std::vector<double> changes;
  for (size_t i = 0; i < kResamples; ++i) changes.push_back(Resample(new_runs, random) - Resample(base_runs, random));
  std::ranges::sort(changes);
  const auto at = static_cast<size_t>(kWorseLevel * kResamples);
  return changes[at] > 0 ? Answer::kWorse : changes[kResamples - 1 - at] < 0 ? Answer::kBetter : Answer::kCannotTell;
}

void Print(const Scenario& scenario, std::string_view method, const Counts& counts) {
  const Simulation& of = scenario.simulation;
  printf("%s,%s,%s,%zu,%g,%g,%zu,%zu,%zu,%zu,%zu\n", std::string(scenario.name).c_str(), std::string(method).c_str(),
         of.order == Order::kRandomPairs ? "random pairs" : "base first", of.runs, of.run_sd, of.change,
         scenario.comparisons, counts.of[static_cast<size_t>(Answer::kWorse)],
         counts.of[static_cast<size_t>(Answer::kBetter)], counts.of[static_cast<size_t>(Answer::kEquivalent)],
         counts.of[static_cast<size_t>(Answer::kCannotTell)]);
  fflush(stdout);
}

void Measure(const Scenario& scenario, uint64_t seed) {
  Simulator simulator(seed);
  std::mt19937_64 random(seed);
  Counts unpaired, paired, all_steps, percentiles;
  for (size_t i = 0; i < scenario.comparisons; ++i) {
    auto [base, now] = simulator.Sides(scenario.simulation);
    if (scenario.others) {
      all_steps.Add(ByAllSteps(base, now));
      percentiles.Add(ByPercentiles(base, now, &random));
    }
    if (scenario.simulation.order == Order::kRandomPairs) paired.Add(Compare(base, now, {.paired = true}).answer);
    unpaired.Add(Compare(std::move(base), std::move(now), {}).answer);
  }
  Print(scenario, "gate", unpaired);
  if (scenario.simulation.order == Order::kRandomPairs) Print(scenario, "gate paired", paired);
  if (!scenario.others) return;
  Print(scenario, "t over all steps", all_steps);
  Print(scenario, "bootstrap percentiles", percentiles);
}

void MeasureAll() {
  using enum Order;
  const Scenario scenarios[] = {
      {"same; 2 runs", {.runs = 2}, 2000, true},
      {"same; 3 runs", {.runs = 3}, 2000, true},
      {"same; 5 runs", {.runs = 5}, 2000, true},
      {"same; 10 runs", {.runs = 10}, 2000, true},
      {"same; 10 runs; SD 0.2 %", {.run_sd = 0.002, .runs = 10}, 2000},
      {"same; 10 runs; SD 5 %", {.run_sd = 0.05, .runs = 10}, 2000},
      {"same; 40 runs", {.runs = 40}, 2000},
      {"same; 10 runs; correlation 0.9", {.correlation = 0.9, .runs = 10}, 2000},
      {"same; 10 runs; base first", {.runs = 10, .order = kBaseFirst}, 2000},
      {"change; SD 0.4 %; 10 runs", {.run_sd = 0.004, .runs = 10, .change = 0.01}, 2000, true},
      {"change; SD 1 %; 40 runs", {.run_sd = 0.01, .step_sd = 0.01, .runs = 40, .change = 0.01}, 2000},
      {"change; SD 1 %; 10 runs", {.run_sd = 0.01, .runs = 10, .change = 0.03}, 2000, true},
      {"change; SD 1 %; base first", {.run_sd = 0.01, .runs = 10, .change = 0.03, .order = kBaseFirst}, 2000},
      {"same; drift 5 %", {.runs = 10, .drift = 0.05}, 2000, true},
      {"same; drift 5 %; base first", {.runs = 10, .drift = 0.05, .order = kBaseFirst}, 2000, true},
      {"same; drift 20 %; base first", {.runs = 10, .drift = 0.2, .order = kBaseFirst}, 2000},
      {"same; warming 15 %", {.runs = 10, .warming = 0.15}, 2000},
      {"same; warming 15 %; base first", {.runs = 10, .warming = 0.15, .order = kBaseFirst}, 2000},
      {"same; neighbour 8 %", {.runs = 10, .neighbour = 0.08}, 2000, true},
      {"same; neighbour 8 %; base first", {.runs = 10, .neighbour = 0.08, .order = kBaseFirst}, 2000, true},
      {"change; drift 5 %", {.run_sd = 0.01, .runs = 10, .change = 0.03, .drift = 0.05}, 2000},
      {"change; warming 15 %", {.run_sd = 0.01, .runs = 10, .change = 0.03, .warming = 0.15}, 2000},
  };
  printf("scenario,method,order,runs,run_sd,change,comparisons,worse,better,equivalent,cannot_tell\n");
  uint64_t seed = 1;
  for (const Scenario& scenario : scenarios) Measure(scenario, seed++);
}

}  // namespace
}  // namespace tbprof

int main() { tbprof::MeasureAll(); }
