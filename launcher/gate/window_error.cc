// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/window_error.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "launcher/gate/statistics.h"
#include "writer/outputs/summary_steps.h"

namespace tbprof {
namespace {

// Blocks of fewer steps would have medians like single steps.
constexpr size_t kFewestOfBlock = 8;
constexpr size_t kFewestBlocks = 10;
// Least standard error of an amount, as a share of it.
constexpr double kLeastError = 0.02;
// Standard deviations by which a number of independent events differs by chance.
constexpr double kEventSds = 3;
constexpr double kStepsAtEnds = 2;
// Counters are read this far from the ends of a window, on a machine with few CPUs that other programs use.
constexpr double kCounterSeconds = 0.25;

std::vector<double> Blocks(const RunNumbers& run) {
  if (run.steps_s.empty()) return run.block_medians_s;
  const size_t steps = run.steps_s.size();
  const size_t least = std::min(kFewestOfBlock, steps / kFewestBlocks);
  const size_t block = std::max<size_t>({1, least, (steps + kMaxStepBlocks - 1) / kMaxStepBlocks});
  return BlockMedians(run.steps_s, block);
}

// What one sample stands for, per step: of all amounts of the kind together.
double OfOneSample(const RunNumbers& run, AmountKind kind) {
  double sum = 0, samples = 0;
  for (const Amount& amount : run.amounts) {
    if (amount.kind != kind) continue;
    sum += amount.per_step;
    samples += amount.samples;
  }
  return samples > 0 ? sum / samples : 0;
}

}  // namespace

WindowValue StepOfWindow(const RunNumbers& run, bool medians, uint64_t seed) {
  if (!medians) return {TrimmedMean(run.steps_s), WanderingError(run.steps_s, seed)};
  return {run.median_step_s, WanderingError(Blocks(run), seed)};
}

WindowValue MeanStepOfWindow(const RunNumbers& run) {
  if (!run.steps_s.empty()) return {run.mean_step_s, WanderingErrorOfMean(run.steps_s)};
  return {run.mean_step_s, WanderingErrorOfMean(run.block_means_s)};
}

WindowValue PooledWindows(const std::vector<WindowValue>& windows) {
  if (windows.size() == 1) return windows[0];
  // Windows that differ by more than this many of their errors: the level wanders between them.
  constexpr double kWanders = 2;
  const auto count = static_cast<double>(windows.size());
  std::vector<double> logs;
  double square = 0;
  WindowValue out;
  out.error.degrees = windows[0].error.degrees;
  for (const WindowValue& window : windows) {
    logs.push_back(std::log(window.seconds));
    square += window.error.error * window.error.error / count;
    out.error.degrees = std::min(out.error.degrees, window.error.degrees);
    out.error.wanders |= window.error.wanders;
  }
  const double between = VarianceOfMean(logs);
  out.seconds = std::exp(Mean(logs));
  out.error.error = std::sqrt(std::max(square / count, between));
  if (between > square / count) out.error.degrees = std::min(out.error.degrees, count - 1);
  out.error.wanders |= between * count > kWanders * kWanders * square;
  return out;
}

std::optional<double> AmountError(const RunNumbers& run, AmountKind kind, double value, double samples) {
  const WindowValue step = MeanStepOfWindow(run);
  if (step.error.degrees <= 0) return std::nullopt;
  // An amount that is a part of the step varies with it. Parts may trade places while the step stays the same: work
  // beside a GPU, and the wait for it.
  const double with_step = step.error.error * (kind == AmountKind::kAllocationSite ? value : step.seconds);
  const double of_step = std::max(with_step, kLeastError * value);
  double of_samples = 0;
  if (IsSampled(kind) || kind == AmountKind::kWait || kind == AmountKind::kKernel) {
    const double one = samples > 0 ? value / samples : OfOneSample(run, kind);
    of_samples = one * std::sqrt(std::max(samples, 1.0));
  } else if (kind == AmountKind::kPart && run.python_samples > 0 && step.seconds > 0) {
    // What the step did at a time is known from samples where no call shows it.
    const double share = std::clamp(value / step.seconds, 1 / run.python_samples, 1.0);
    of_samples = step.seconds * std::sqrt(share * (1 - share) / run.python_samples);
  }
  return std::hypot(of_step, of_samples);
}

double CountTolerance(const RunNumbers& base, double base_per_step, const RunNumbers& now, double now_per_step,
                      bool counter) {
  double at_ends = 0, variance = 0;
  for (const auto& [run, per_step] : {std::pair(&base, base_per_step), {&now, now_per_step}}) {
    const double steps = std::max(run->AllSteps(), 1.0);
    const double of_ends = counter && run->wall_s.value_or(0) > 0 ? kCounterSeconds / *run->wall_s : 0;
    at_ends = std::max(at_ends, per_step * (of_ends + kStepsAtEnds / steps));
    variance += std::max(per_step * steps, 1.0) / (steps * steps);
  }
  return at_ends + kEventSds * std::sqrt(variance);
}

}  // namespace tbprof
