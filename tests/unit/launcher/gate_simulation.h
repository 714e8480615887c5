// SPDX-License-Identifier: Apache-2.0
//
// Simulated runs for the gate: steps that correlate within a run, runs that differ, and disturbances.
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_GATE_SIMULATION_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_GATE_SIMULATION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "launcher/gate/bootstrap.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

enum class Order { kRandomPairs, kBaseFirst };

struct Simulation {
  double run_sd = 0.01;       // standard deviation of the logarithm, between runs
  double step_sd = 0.02;      // likewise, between the steps of a run
  double correlation = 0.3;   // between a step and the next
  double spike_share = 0.01;  // share of steps that take three times as long
  size_t steps = 200;
  size_t runs = 10;  // per side
  double change = 0;
  double drift = 0;      // slowdown of the machine from the first run to the last
  double warming = 0;    // slowdown of the first run of each side
  double neighbour = 0;  // slowdown beside another program, which starts or stops before a fifth of the runs
  Order order = Order::kRandomPairs;
};

class Simulator {
 public:
  explicit Simulator(uint64_t seed) : random_(seed) {}

  RunNumbers Run(const Simulation& of, double slower, int64_t place) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const double run = of.run_sd * normal(random_) + slower;
    const double fresh = of.step_sd * std::sqrt(1 - of.correlation * of.correlation);
    RunNumbers numbers;
    double noise = of.step_sd * normal(random_);
    for (size_t i = 0; i < of.steps; ++i) {
      noise = of.correlation * noise + fresh * normal(random_);
      numbers.steps_s.push_back(0.01 * std::exp(run + noise) * (uniform(random_) < of.spike_share ? 3 : 1));
    }
    numbers.steps = of.steps;
    numbers.mean_step_s = Mean(numbers.steps_s);
    std::vector<double> sorted = numbers.steps_s;
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2));
    numbers.median_step_s = sorted[sorted.size() / 2];
    numbers.start_unix_ns = place + 1;
    numbers.path = numbers.identity.command = "program";
    numbers.path += std::to_string(place);
    numbers.identity.cpu_model = "a CPU";
    return numbers;
  }

  std::pair<Side, Side> Sides(const Simulation& of) {
    std::uniform_real_distribution<double> uniform;
    std::vector<bool> is_new;
    for (size_t pair = 0; pair < of.runs; ++pair) {
      const bool new_first = of.order == Order::kRandomPairs && uniform(random_) < 0.5;
      is_new.push_back(new_first);
      is_new.push_back(!new_first);
    }
    if (of.order == Order::kBaseFirst) std::sort(is_new.begin(), is_new.end());
    std::pair<Side, Side> sides;
    bool beside = uniform(random_) < 0.5;
    for (size_t i = 0; i < is_new.size(); ++i) {
      Side& side = is_new[i] ? sides.second : sides.first;
      if (uniform(random_) < 0.2) beside = !beside;
      double slower = of.drift * static_cast<double>(i) / static_cast<double>(is_new.size() - 1);
      if (side.runs.empty()) slower += of.warming;
      if (beside) slower += of.neighbour;
      if (is_new[i]) slower += std::log1p(of.change);
      side.runs.push_back(Run(of, slower, static_cast<int64_t>(i)));
    }
    return sides;
  }

  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_GATE_SIMULATION_H_
