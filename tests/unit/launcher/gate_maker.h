// SPDX-License-Identifier: Apache-2.0
//
// Sides of runs, and comparisons filled in like those of compare.cc.
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_GATE_MAKER_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_GATE_MAKER_H_

#include <string>
#include <utility>
#include <vector>

#include "launcher/gate/comparison.h"

namespace tbprof {

// Each run starts a microsecond after the one that was made before it.
inline RunNumbers MakeRun(const std::string& path, double step_s) {
  static int64_t made = 0;
  RunNumbers run;
  run.path = path;
  run.identity = {"python train.py --epochs=3",
                  "auto",
                  "Xeon 8481C",
                  "3.11.7",
                  "0.1.0",
                  "Optimizer.step",
                  "vm",
                  2,
                  {"NVIDIA H200"},
                  1};
  run.start_unix_ns = 1'764'000'000'000'000'000 + 1000 * ++made;
  for (int i = 0; i < 20; ++i) run.steps_s.push_back(step_s * (1 + 0.001 * (i % 3)));
  run.steps = 20;
  run.median_step_s = run.mean_step_s = run.split_step_s = step_s;
  run.counts = {{"kernels", 108, CountBasis::kRun}, {"allocations", 2000.5, CountBasis::kSteps}};
  run.amounts = {{AmountKind::kPart, "input", step_s * 0.4},
                 {AmountKind::kPart, "operations", step_s * 0.6},
                 {AmountKind::kKernel, "gemm<float, 2>", step_s * 0.3},
                 {AmountKind::kAllocationSite, "train.py:12 main", 4096}};
  run.memory_peak_bytes = 3.0e8;
  run.wall_s = 12.5;
  run.files = {"train.xplane.pb"};
  return run;
}

inline Side MakeSide(const std::string& path, const std::vector<double>& steps_s) {
  Side side;
  for (size_t i = 0; i < steps_s.size(); ++i) side.runs.push_back(MakeRun(path + std::to_string(i), steps_s[i]));
  return side;
}

// Of 10 + 10 runs.
inline QuantityResult MakeQuantity(const std::string& name, Unit unit, double base, double now, double low, double high,
                                   Answer answer) {
  QuantityResult quantity;
  quantity.name = name;
  quantity.unit = unit;
  quantity.base_runs = quantity.now_runs = 10;
  quantity.base = base;
  quantity.now = now;
  quantity.change = now / base - 1;
  quantity.low = low;
  quantity.high = high;
  quantity.answer = answer;
  return quantity;
}

inline QuantityResult MakeCount(const std::string& name, double base, double now) {
  QuantityResult quantity;
  quantity.name = name;
  quantity.unit = Unit::kCount;
  quantity.exact = true;
  quantity.base_runs = quantity.now_runs = 10;
  quantity.base = base;
  quantity.now = now;
  if (base != 0) quantity.change = now / base - 1;
  quantity.answer = now > base ? Answer::kWorse : now < base ? Answer::kBetter : Answer::kEquivalent;
  return quantity;
}

// The step grows from 31.2 ms to 32.5 ms in 10 + 10 runs, because of its input.
inline Comparison MakeWorse() {
  Comparison comparison;
  comparison.base = MakeSide("base", std::vector<double>(10, 0.0312));
  comparison.now = MakeSide("new", std::vector<double>(10, 0.0325));
  comparison.answer = Answer::kWorse;
  comparison.quantities = {MakeQuantity("step_time", Unit::kSeconds, 0.0312, 0.03248, 0.032, 0.05, Answer::kWorse),
                           MakeQuantity("memory_peak", Unit::kBytes, 3e8, 3.01e8, -0.01, 0.02, Answer::kEquivalent),
                           MakeCount("kernels_per_step", 108, 112), MakeCount("allocations_per_step", 2000.5, 2000.5)};
  comparison.difference_s = 0.0013;
  comparison.unexplained_s = 0.0001;
  comparison.blame = {{AmountKind::kPart, "input", 0.0125, 0.0136, 0.85, true},
                      {AmountKind::kPart, "operations", 0.0187, 0.0188, 0.08, false},
                      {AmountKind::kPythonLine, "data.py:17 fetch", 0.010, 0.0111, 0.84, true},
                      {AmountKind::kAllocationSite, "data.py:18 fetch", 1 << 20, 2 << 20, {}, true}};
  comparison.rules = {{"step_time>+3%", RuleResult::State::kFails, "+4.1 % (+3.2 to +5.0 %)"},
                      {"memory_peak>+1%", RuleResult::State::kCannotTell, "+0.3 % (-1.0 to +2.0 %)"},
                      {"allocations_per_step>+1%", RuleResult::State::kHolds, "+0.0 %"}};
  comparison.warnings = {"base: other processes used 12 % of the CPUs"};
  return comparison;
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_GATE_MAKER_H_
