// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/gate/blame.h"
#include "launcher/gate/bootstrap.h"
#include "launcher/gate/comparability.h"
#include "writer/base/summary_format.h"

namespace tbprof {
namespace {

// If the numbers of steps differ by more, start-up has a different share of counts over the whole run.
constexpr double kSameStepsShare = 0.01;

using Value = std::function<std::optional<double>(const RunNumbers&)>;

// std::nullopt: a run lacks the value.
std::optional<std::vector<double>> ValuesOf(const Side& side, const Value& value) {
  std::vector<double> values;
  for (const RunNumbers& run : side.runs) {
    const std::optional<double> one = value(run);
    if (!one.has_value()) return std::nullopt;
    values.push_back(*one);
  }
  return values;
}

// Largest difference between values, as a share of their mean.
double Spread(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  const double mean = std::abs(Mean(values));
  return mean > 0 ? (most - least) / mean : most - least;
}

std::vector<RunValue> Logs(const Side& side, const std::vector<double>& values) {
  std::vector<RunValue> logs;
  for (size_t i = 0; i < values.size(); ++i) logs.push_back({std::log(values[i]), 0, side.runs[i].start_unix_ns});
  return logs;
}

double GeometricMean(const std::vector<RunValue>& values) {
  double sum = 0;
  for (const RunValue& value : values) sum += value.log;
  return std::exp(sum / static_cast<double>(values.size()));
}

std::string UnclearReason(const Estimate& estimate, double margin, uint64_t base_runs, uint64_t now_runs) {
  if (!estimate.known) {
    return base_runs == 1 && now_runs == 1 ? "one run a side: how much runs differ by chance is not known"
                                           : "too few runs: how much they differ by chance is not known";
  }
  if (estimate.apart && estimate.trend) {
    return "the runs get slower or faster within the sides, which were not run alternately: as likely the machine";
  }
  return StrCat("runs differ by ", HumanPercent(std::expm1(estimate.run_sd)),
                estimate.paired ? " from pair to pair" : " by chance", ": too much to tell a change of ",
                HumanPercent(margin), " from none");
}

class Comparing {
 public:
  // `base`: the runs of the base for the numbers that are added.
  Comparing(const CompareOptions& options, const Side& base, Comparison* out)
      : options_(options), base_(base), out_(*out) {}

  void AddTimes(const std::string& no_times) {
    if (!no_times.empty()) {
      AddUnknown("step_time", Unit::kSeconds, no_times);
      return;
    }
    const bool medians = NeedsMedians(base_, out_.now);
    AddEstimate("step_time", Unit::kSeconds, StepTimes(base_, medians), StepTimes(out_.now, medians), true);
    // The mean includes pauses that the trimmed mean leaves out.
    AddLogs("step_time_mean", Unit::kSeconds, [](const RunNumbers& run) { return std::optional(run.mean_step_s); });
  }

  void AddMemory() {
    const auto value = [](const RunNumbers& run) { return run.memory_peak_bytes; };
    if (IsNowhere(value)) return;
    AddRepeating("memory_peak", Unit::kBytes, value, false, "");
  }

  void AddCounts(const std::string& no_counts) {
    std::set<std::string> names;
    for (const Side* side : Sides()) {
      for (const RunNumbers& run : side->runs) {
        for (const Count& count : run.counts) names.insert(count.name);
      }
    }
    for (const std::string& name : names) {
      const Unit unit = name.ends_with("_bytes") ? Unit::kBytes : Unit::kCount;
      const std::string quantity = StrCat(name, "_per_step");
      if (!no_counts.empty()) {
        AddUnknown(quantity, unit, no_counts);
        continue;
      }
      AddRepeating(
          quantity, unit,
          [&](const RunNumbers& run) {
            const Count* const count = Find(run, name);
            return count == nullptr ? std::nullopt : std::optional(count->per_step);
          },
          true, NotCountable(name));
    }
  }

  void AddWall(const std::string& no_wall) {
    if (!no_wall.empty()) return AddUnknown("wall_time", Unit::kSeconds, no_wall);
    AddLogs("wall_time", Unit::kSeconds, [](const RunNumbers& run) { return run.wall_s; });
  }

 private:
  std::array<const Side*, 2> Sides() const { return {&base_, &out_.now}; }
  static const Count* Find(const RunNumbers& run, const std::string& name) {
    const auto found = std::ranges::find(run.counts, name, &Count::name);
    return found == run.counts.end() ? nullptr : &*found;
  }

  bool IsNowhere(const Value& value) const {
    for (const Side* side : Sides()) {
      if (std::ranges::any_of(side->runs, [&](const RunNumbers& run) { return value(run).has_value(); })) return false;
    }
    return true;
  }

  // The reason why a single run per side does not give an exact count. Empty: the count is exact.
  std::string NotCountable(const std::string& name) const {
    uint64_t fewest = UINT64_MAX, most = 0;
    std::set<CountBasis> bases;
    for (const Side* side : Sides()) {
      for (const RunNumbers& run : side->runs) {
        if (!run.no_counts.empty()) return StrCat("not countable: ", run.path, ": ", run.no_counts);
        if (const Count* count = Find(run, name)) bases.insert(count->basis);
        fewest = std::min(fewest, run.steps + run.irregular_steps);
        most = std::max(most, run.steps + run.irregular_steps);
      }
    }
    if (bases.size() > 1) return "not countable: of the steps on one side, of the whole run on the other";
    if (bases.contains(CountBasis::kRun) &&
        static_cast<double>(most - fewest) > kSameStepsShare * static_cast<double>(most)) {
      return StrCat("not countable: it is of the whole run, and the runs have ", fewest, " to ", most, " steps");
    }
    return "";
  }

  void AddUnknown(const std::string& name, Unit unit, const std::string& reason) {
    QuantityResult result;
    result.name = name;
    result.unit = unit;
    result.reason = reason;
    out_.quantities.push_back(std::move(result));
  }

  // Adds a value that may be equal in all runs of a side. `alone`: a single run per side suffices to show it.
  void AddRepeating(const std::string& name, Unit unit, const Value& value, bool alone, const std::string& not_exact) {
    const auto base = ValuesOf(base_, value), now = ValuesOf(out_.now, value);
    if (!base.has_value() || !now.has_value()) return AddUnknown(name, unit, "some runs do not have it");
    const double spread = std::max(Spread(*base), Spread(*now));
    const bool shown = alone || (base->size() > 1 && now->size() > 1);
    if (shown && spread <= kEqualShare && not_exact.empty()) return AddExact(name, unit, Mean(*base), Mean(*now));
    AddLogs(name, unit, value);
    QuantityResult& result = out_.quantities.back();
    if (!not_exact.empty()) {
      result.answer = Answer::kCannotTell;
      result.more_runs.reset();
      result.reason = not_exact;
    } else if (result.answer == Answer::kCannotTell && alone) {
      result.reason = StrCat("not countable: it differs by ", HumanPercent(spread), " between runs of one side");
    }
  }

  void AddExact(const std::string& name, Unit unit, double base, double now) {
    QuantityResult result;
    result.name = name;
    result.unit = unit;
    result.exact = true;
    result.base = base;
    result.now = now;
    const bool equal = std::abs(now - base) <= kEqualShare * std::abs(base);
    if (base != 0) {
      result.change = result.low = result.high = now / base - 1;
    } else if (equal) {
      result.change = result.low = result.high = 0;
    }
    result.answer = equal ? Answer::kEquivalent : now > base ? Answer::kWorse : Answer::kBetter;
    out_.quantities.push_back(std::move(result));
  }

  void AddLogs(const std::string& name, Unit unit, const Value& value) {
    const auto base = ValuesOf(base_, value), now = ValuesOf(out_.now, value);
    if (!base.has_value() || !now.has_value()) return AddUnknown(name, unit, "some runs do not have it");
    const auto positive = [](double number) { return number > 0; };
    if (!std::ranges::all_of(*base, positive) || !std::ranges::all_of(*now, positive)) {
      AddUnknown(name, unit, "it is 0 in some runs and differs between runs of one side");
      out_.quantities.back().base = Mean(*base);
      out_.quantities.back().now = Mean(*now);
      return;
    }
    AddEstimate(name, unit, Logs(base_, *base), Logs(out_.now, *now), false);
  }

  void AddEstimate(const std::string& name, Unit unit, const std::vector<RunValue>& base,
                   const std::vector<RunValue>& now, bool is_step_time) {
    const bool paired = options_.paired && base.size() == now.size() && base.size() > 1;
    const Estimate estimate = paired ? EstimatePairedChange(base, now) : EstimateChange(base, now, std::nullopt);
    const Decision decision = Decide(estimate, out_.margin, options_.budget_share);
    QuantityResult result;
    result.name = name;
    result.unit = unit;
    result.base = GeometricMean(base);
    result.now = *result.base * std::exp(estimate.change);
    result.change = std::expm1(estimate.change);
    if (estimate.known) {
      const Interval interval = IntervalOf(estimate, out_.confidence);
      result.low = interval.low;
      result.high = interval.high;
    }
    result.answer = decision.answer;
    result.more_runs = decision.more_runs;
    if (result.answer == Answer::kCannotTell) {
      result.reason = UnclearReason(estimate, out_.margin, base.size(), now.size());
    }
    out_.quantities.push_back(std::move(result));
    if (is_step_time) Warn(estimate);
  }

  void Warn(const Estimate& estimate) {
    if (estimate.warming) {
      out_.warnings.emplace_back("the first run of each side is slower than all others of it, and left out");
    }
    if (estimate.disturbed && !estimate.trend && !estimate.warming) {
      out_.warnings.emplace_back(
          "the machine was disturbed: runs scatter widely or follow each other's times; only clear changes are named");
    }
    if (estimate.apart) {
      out_.warnings.emplace_back(
          "the sides were not run alternately: what changed on the machine between them counts as a change of the "
          "program");
    }
    if (!estimate.trend) return;
    out_.warnings.emplace_back(
        estimate.apart ? "the step time drifts within the sides: the interval allows for as much between them"
                       : "the step time drifts from run to run: a straight line was taken away");
  }

  const CompareOptions& options_;
  const Side& base_;
  Comparison& out_;
};

}  // namespace

std::string_view AnswerName(Answer answer) {
  switch (answer) {
    case Answer::kEquivalent:
      return "equivalent";
    case Answer::kBetter:
      return "better";
    case Answer::kWorse:
      return "worse";
    case Answer::kCannotTell:
      return "cannot_tell";
  }
  return "cannot_tell";
}

bool NeedsMedians(const Side& base, const Side& now) {
  const auto has_none = [](const RunNumbers& run) { return run.steps_s.size() < run.steps || run.steps_s.empty(); };
  return std::ranges::any_of(base.runs, has_none) || std::ranges::any_of(now.runs, has_none);
}

std::vector<RunValue> StepTimes(const Side& side, bool medians) {
  std::vector<RunValue> values;
  for (size_t i = 0; i < side.runs.size(); ++i) {
    const RunNumbers& run = side.runs[i];
    const double step_s = medians ? run.median_step_s : TrimmedMean(run.steps_s);
    values.push_back({std::log(step_s), BlockError(run.steps_s, i + 1), run.start_unix_ns});
  }
  return values;
}

Comparison Compare(Side base, Side now, const CompareOptions& options) {
  Comparison out;
  out.margin = options.margin;
  BaseRuns runs = ChooseBaseRuns(std::move(base), now, options.any_program);
  out.now = std::move(now);
  const Comparability comparable = CheckComparable(runs, out.now, options.any_program);
  out.reason = comparable.reason;
  out.warnings = comparable.warnings;
  for (std::string& warning : runs.warnings) out.warnings.push_back(std::move(warning));
  if (out.reason.empty()) {
    Comparing(options, runs.times, &out).AddTimes(comparable.no_times);
    Comparing(options, runs.ForAll(), &out).AddMemory();
    Comparing(options, runs.ForCounts(), &out).AddCounts(comparable.no_counts);
    Comparing(options, runs.ForWall(), &out).AddWall(comparable.no_wall);
    out.answer = out.quantities.front().answer;
    out.reason = out.quantities.front().reason;
  }
  out.base = std::move(runs.times);
  if (!out.quantities.empty() && comparable.no_times.empty()) Blame(&out);
  return out;
}

}  // namespace tbprof
