// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/cpu_contention.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "writer/base/summary_format.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {
namespace {

// If waits for a CPU have a larger share of the step, the machine was shared.
constexpr double kSharedCpus = 0.05;

double StarvationOf(const RunNumbers& run) {
  double sum = 0;
  for (const Amount& amount : run.amounts) {
    const bool starves = amount.kind == AmountKind::kPart && amount.name == StepPartName(StepPart::kStarvation);
    if (starves) sum += amount.per_step;
  }
  return sum;
}

// If waits for a CPU have this share of the change, and the job used less than this share of the CPUs, the machine was
// busy with other programs.
constexpr double kStarvedShare = 0.2, kOwnCpus = 0.7;

double MeanStarvation(const Side& side) {
  double sum = 0;
  for (const RunNumbers& run : side.runs) sum += StarvationOf(run);
  return sum / static_cast<double>(side.runs.size());
}

double MeanStep(const Side& side) {
  double sum = 0;
  for (const RunNumbers& run : side.runs) sum += run.mean_step_s;
  return sum / static_cast<double>(side.runs.size());
}

// The share of the change that is waits for a CPU. They are of all steps; the change may be of the typical one.
double StarvedShare(const Sides& sides, const QuantityResult& step) {
  const double of_mean = MeanStep(sides.now) - MeanStep(sides.base);
  const double of_typical = step.now.value_or(0) - step.base.value_or(0);
  const double change = std::abs(of_mean) > std::abs(of_typical) ? of_mean : of_typical;
  const double share = (MeanStarvation(sides.now) - MeanStarvation(sides.base)) / change;
  return std::isfinite(share) ? share : 0;
}

// Of one run, by all of its threads: what it needed of the CPUs, and how long its threads waited for one.
struct Demand {
  double cpu_s = 0, wait_s = 0, wall_s = 0;
};

std::optional<Demand> MeanDemand(const Side& side) {
  Demand sum;
  for (const RunNumbers& run : side.runs) {
    // In a container the machine has more CPUs than the job.
    if (run.cpu_s.value_or(0) <= 0 || !run.cpu_wait_s.has_value() || run.wall_s.value_or(0) <= 0 ||
        run.cpus_allowed.value_or(0) <= 0) {
      return {};
    }
    sum.cpu_s += *run.cpu_s;
    sum.wait_s += *run.cpu_wait_s;
    sum.wall_s += *run.wall_s;
  }
  const auto runs = static_cast<double>(side.runs.size());
  return Demand{sum.cpu_s / runs, sum.wait_s / runs, sum.wall_s / runs};
}

// Likewise, by all threads of the job: the thread of the steps may wait for others, which have no CPU. The waits of
// threads that wait at once count once.
double StarvedShareOfThreads(const Sides& sides, const QuantityResult& step) {
  const std::optional<Demand> base = MeanDemand(sides.base), now = MeanDemand(sides.now);
  if (!base.has_value() || !now.has_value()) return 0;
  const double change_s = (step.now.value_or(0) - step.base.value_or(0)) * MeanAllSteps(sides.now);
  // The side that waited for CPUs more than the other did for the same work.
  const bool is_now = change_s > 0;
  const Demand &more = is_now ? *now : *base, &less = is_now ? *base : *now;
  const double extra_s = more.wait_s - less.wait_s * more.cpu_s / less.cpu_s;
  const double threads = std::max(1.0, (more.cpu_s + more.wait_s) / more.wall_s);
  const double share = extra_s / threads / std::abs(change_s);
  return std::isfinite(share) ? share : 0;
}

}  // namespace

bool IsStarved(const RunNumbers& run) { return StarvationOf(run) > kSharedCpus * run.mean_step_s; }

std::string StarvationOfWindows(const Sides& sides, const Comparison& comparison) {
  if (comparison.answer != Answer::kWorse && comparison.answer != Answer::kBetter) return "";
  const double share = StarvedShare(sides, comparison.quantities.front());
  if (share < kStarvedShare) return "";
  return StrCat("waits for a CPU are ", HumanPercent(std::min(share, 1.0)),
                " of the change: other programs or other threads of the job had the CPUs");
}

bool IsClearUnderLoad(const Comparison& comparison) {
  constexpr double kLeastChange = 0.25;
  if (comparison.answer != Answer::kWorse && comparison.answer != Answer::kBetter) return false;
  const QuantityResult& step = comparison.quantities.front();
  if (step.answer != comparison.answer) return false;  // long steps decided, which load makes
  const bool is_large =
      step.low.value_or(0) >= kLeastChange || step.high.value_or(0) <= -kLeastChange / (1 + kLeastChange);
  const Sides sides{comparison.base, comparison.now};
  if (!is_large || !MeanDemand(sides.base).has_value() || !MeanDemand(sides.now).has_value()) return false;
  return std::max(StarvedShare(sides, step), StarvedShareOfThreads(sides, step)) < kStarvedShare;
}

std::string WhyCpusDiffer(const Sides& sides, const Comparison& comparison) {
  const QuantityResult& step = comparison.quantities.front();
  // A rule takes the interval, although the answer may not be sure.
  const bool differs = step.low.value_or(0) > 0 || step.high.value_or(0) < 0;
  const bool is_clear = comparison.answer == Answer::kWorse || comparison.answer == Answer::kBetter;
  if (!is_clear && (comparison.answer == Answer::kEquivalent || !differs)) return "";
  if (!step.base.has_value() || !step.now.has_value()) return "";
  const double share = std::max(StarvedShare(sides, step), StarvedShareOfThreads(sides, step));
  if (share < kStarvedShare) return "";
  const Side& starving = *step.now > *step.base ? sides.now : sides.base;
  double used = 0, cpus = 0;
  for (const RunNumbers& run : starving.runs) {
    if (!run.cpus_used.has_value() || run.identity.cpus <= 0) return "";
    used += *run.cpus_used;
    const auto of_machine = static_cast<double>(run.identity.cpus);
    cpus += run.cpus_allowed.value_or(0) > 0 ? std::min(*run.cpus_allowed, of_machine) : of_machine;
  }
  if (used >= kOwnCpus * cpus) return "";
  const auto runs = static_cast<double>(starving.runs.size());
  return StrCat("waits for a CPU are ", HumanPercent(std::min(share, 1.0)), " of the change, and the job used ",
                absl::StrFormat("%.1f of %.3g CPUs", used / runs, cpus / runs), ": other programs had them");
}

}  // namespace tbprof
