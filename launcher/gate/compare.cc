// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/gate/blame.h"
#include "launcher/gate/bootstrap.h"
#include "launcher/gate/comparability.h"
#include "launcher/gate/cpu_contention.h"
#include "launcher/gate/window_error.h"
#include "launcher/gate/window_shares.h"
#include "writer/base/summary_format.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {
namespace {

// Whether a thread has to wait for a lock depends on what runs beside it: such counts differ from run to run.
constexpr std::string_view kByTiming[] = {"lock_waits"};
// Counts that include calls without a record: docs/conservation.md.
constexpr std::string_view kByCounters[] = {"allocations", "io_calls", "lock_waits", "thread_calls", "process_calls"};

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

bool HasOneValue(const std::vector<double>& values) {
  return values.size() > 1 && std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
}

std::vector<RunValue> Logs(const Side& side, const std::vector<double>& values, bool by_chance) {
  std::vector<RunValue> logs;
  for (size_t i = 0; i < values.size(); ++i) {
    const RunNumbers& run = side.runs[i];
    const double error = by_chance ? 1 / std::sqrt(std::max(1.0, values[i] * run.AllSteps())) : 0;
    logs.push_back({std::log(values[i]), error, run.start_unix_ns});
  }
  return logs;
}

double GeometricMean(const std::vector<RunValue>& values) {
  double sum = 0;
  for (const RunValue& value : values) sum += value.log;
  return std::exp(sum / static_cast<double>(values.size()));
}

std::string UnclearWindows(const Estimate& estimate, double margin, double confidence) {
  if (!estimate.known) return "too few steps in a window: how much they vary is not known";
  if (const ConfidenceInterval interval = IntervalOf(estimate, confidence);
      estimate.disturbed && (interval.low > 0 || interval.high < 0)) {
    return "the step time wanders in a window, or other programs had the CPUs: only larger changes are sure";
  }
  return StrCat("the steps vary within the windows: a change of ", HumanPercent(margin),
                " may be chance; longer windows (--duration) show smaller changes");
}

std::string UnclearReason(const Estimate& estimate, double margin, double confidence, uint64_t base_runs,
                          uint64_t now_runs) {
  if (estimate.windows) return UnclearWindows(estimate, margin, confidence);
  if (!estimate.known) {
    return base_runs == 1 && now_runs == 1 ? "one run a side: how much runs differ by chance is not known"
                                           : "too few runs: how much they differ by chance is not known";
  }
  if (estimate.apart && !estimate.in_turns && estimate.trend) {
    return "the runs get slower or faster within the sides, which were not run alternately: as likely the machine";
  }
  const ConfidenceInterval interval = IntervalOf(estimate, confidence);
  if (interval.low > 0 || interval.high < 0) {
    return StrCat("a change is likely, but runs differ by ", HumanPercent(std::expm1(estimate.run_sd)),
                  estimate.paired ? " from pair to pair" : " by chance",
                  ", and an answer needs more certainty than the interval's 95 %");
  }
  if (interval.low > -margin && interval.high < margin) {
    return StrCat("the interval lies within ", HumanPercent(margin),
                  "; after so few runs it must be narrower to be called equivalent");
  }
  return StrCat("runs differ by ", HumanPercent(std::expm1(estimate.run_sd)),
                estimate.paired ? " from pair to pair" : " by chance", ": too much to tell a change of ",
                HumanPercent(margin), " from none");
}

class Comparing {
 public:
  // `sides`: the runs for the numbers that are added.
  Comparing(const CompareOptions& options, const Sides& sides, Comparison* out)
      : options_(options), sides_(sides), base_(sides.base), now_(sides.now), out_(*out) {}

  void AddTimes(const std::string& no_times) {
    if (!no_times.empty()) {
      AddUnknown(out_.whole_runs ? "wall_time" : "step_time", Unit::kSeconds, no_times);
      return;
    }
    const bool medians = NeedsMedians(base_, now_);
    if (out_.one_process) return AddWindowTimes(medians);
    if (out_.whole_runs) {
      AddEstimate("wall_time", Unit::kSeconds, StepTimes(base_, medians), StepTimes(now_, medians), true);
      for (const RunNumbers& run : now_.runs) out_.quantities.back().now_values.push_back(run.median_step_s);
      return;
    }
    AddEstimate("step_time", Unit::kSeconds, StepTimes(base_, medians), StepTimes(now_, medians), true);
    for (const RunNumbers& run : now_.runs) out_.quantities.back().now_values.push_back(run.median_step_s);
    // The mean includes pauses that the trimmed mean leaves out.
    AddLogs("step_time_mean", Unit::kSeconds, [](const RunNumbers& run) { return std::optional(run.mean_step_s); });
  }

  void AddMemory() {
    const Value value = [](const RunNumbers& run) { return run.memory_peak_bytes; };
    if (IsNowhere(value)) return;
    if (AreWindows()) return AddUnknown("memory_peak", Unit::kBytes, "it is the peak of the whole process");
    const std::optional<View> view = ViewOf(value);
    if (!view.has_value()) return AddUnknown("memory_peak", Unit::kBytes, WhyNotInAll(value));
    if (!HasSeveralRuns() || view->LargestSpread() > kEqualShare) return AddLogs("memory_peak", Unit::kBytes, value);
    AddExact("memory_peak", Unit::kBytes, {*view});
    // The peak depends on the length of the command line and the environment, too.
    out_.quantities.back().constant = false;
  }

  void AddCounts(const std::string& no_counts) {
    std::set<std::string> names;
    for (const Side* side : BothSides()) {
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
      AddCount(name, quantity, unit);
    }
  }

  // Of the whole run. Other programs on the machine change it by much less than they change the wall time.
  void AddCpu(const std::string& no_wall) {
    const Value value = [](const RunNumbers& run) { return run.cpu_s; };
    if (IsNowhere(value)) return;
    if (!no_wall.empty()) return AddUnknown("cpu_time", Unit::kSeconds, no_wall);
    AddLogs("cpu_time", Unit::kSeconds, value);
  }

  void AddWall(const std::string& no_wall) {
    if (!no_wall.empty()) return AddUnknown("wall_time", Unit::kSeconds, no_wall);
    AddLogs("wall_time", Unit::kSeconds, [](const RunNumbers& run) { return run.wall_s; });
  }

 private:
  void AddWindowTimes(bool medians) {
    const auto typical = [&](const Side& side) {
      std::vector<WindowValue> windows;
      for (size_t i = 0; i < side.runs.size(); ++i) windows.push_back(StepOfWindow(side.runs[i], medians, i + 1));
      return PooledWindows(windows);
    };
    const auto mean = [](const Side& side) {
      std::vector<WindowValue> windows;
      for (const RunNumbers& run : side.runs) windows.push_back(MeanStepOfWindow(run));
      return PooledWindows(windows);
    };
    AddWindowTime("step_time", typical(base_), typical(now_));
    for (const RunNumbers& run : now_.runs) out_.quantities.back().now_values.push_back(run.median_step_s);
    AddWindowTime("step_time_mean", mean(base_), mean(now_));
  }

  void AddWindowTime(const std::string& name, const WindowValue& base, const WindowValue& now) {
    Estimate estimate = EstimateWindowChange(std::log(base.seconds), base.error, std::log(now.seconds), now.error);
    // Waits for a CPU depend on what other programs do, which changes from one window to the next.
    for (const Side* side : BothSides()) estimate.disturbed |= std::ranges::any_of(side->runs, IsStarved);
    FillEstimate(estimate, base.seconds, &Add(name, Unit::kSeconds));
  }

  // One way to see a quantity: a value of each run.
  struct View {
    std::vector<double> base, now;

    double Change() const { return Mean(now) / Mean(base) - 1; }
    double LargestSpread() const { return std::max(Spread(base), Spread(now)); }
    bool IsConstant() const { return HasOneValue(base) && HasOneValue(now); }
    bool IsNone() const { return std::ranges::max(base) == 0 && std::ranges::max(now) == 0; }
  };

  std::optional<View> ViewOf(const Value& value) const {
    const auto base = ValuesOf(base_, value), now = ValuesOf(now_, value);
    return base.has_value() && now.has_value() ? std::optional(View{*base, *now}) : std::nullopt;
  }
  std::string WhyNotInAll(const Value& value) const {
    for (const Side* side : BothSides()) {
      for (const RunNumbers& run : side->runs) {
        if (!value(run).has_value()) return StrCat(run.path, " does not have it");
      }
    }
    return "";
  }
  bool HasSeveralRuns() const { return base_.runs.size() > 1 && now_.runs.size() > 1; }

  std::array<const Side*, 2> BothSides() const { return {&base_, &now_}; }
  static const Count* Find(const RunNumbers& run, const std::string& name) {
    const auto found = std::ranges::find(run.counts, name, &Count::name);
    return found == run.counts.end() ? nullptr : &*found;
  }

  bool IsNowhere(const Value& value) const {
    for (const Side* side : BothSides()) {
      if (std::ranges::any_of(side->runs, [&](const RunNumbers& run) { return value(run).has_value(); })) return false;
    }
    return true;
  }

  std::set<CountBasis> BasesOf(const std::string& name) const {
    std::set<CountBasis> bases;
    for (const Side* side : BothSides()) {
      for (const RunNumbers& run : side->runs) {
        if (const Count* count = Find(run, name)) bases.insert(count->basis);
      }
    }
    return bases;
  }

  QuantityResult& Add(const std::string& name, Unit unit) {
    QuantityResult& result = out_.quantities.emplace_back();
    result.name = name;
    result.unit = unit;
    result.base_runs = base_.runs.size();
    result.now_runs = now_.runs.size();
    return result;
  }

  void AddUnknown(const std::string& name, Unit unit, std::string_view reason) { Add(name, unit).reason = reason; }

  // A total of the whole run is seen in two ways: divided by the steps of its own run, and by those of the base. What
  // is found to be a step may differ by chance between runs of the same program: then the first is wrong. If the
  // program makes another number of steps, the second is.
  void AddCount(const std::string& name, const std::string& quantity, Unit unit) {
    const Value per_step = [&](const RunNumbers& run) {
      const Count* const count = Find(run, name);
      return count == nullptr ? std::nullopt : std::optional(count->per_step);
    };
    const double base_steps = MeanAllSteps(base_);
    const Value per_base_step = [&](const RunNumbers& run) {
      const std::optional<double> own = per_step(run);
      // The total is a whole number.
      return own.has_value() ? std::optional(std::round(*own * run.AllSteps()) / base_steps) : std::nullopt;
    };
    const std::optional<View> own = ViewOf(per_step);
    if (!own.has_value()) return AddUnknown(quantity, unit, WhyNotInAll(per_step));
    const std::set<CountBasis> bases = BasesOf(name);
    std::vector<View> views = {*own};
    const bool by_timing = std::ranges::find(kByTiming, name) != std::end(kByTiming);
    if (!by_timing && AreWindows() && base_.runs.size() == 1 && now_.runs.size() == 1 && bases.size() == 1)
      return AddWindowCount(name, unit, *own);
    if (bases.contains(CountBasis::kRun) && !AreWindows()) views.push_back(*ViewOf(per_base_step));
    double spread = own->LargestSpread();
    for (const View& view : views) spread = std::min(spread, view.LargestSpread());
    const std::string not_exact = bases.size() > 1
                                      ? "not countable: of the steps on one side, of the whole run on the other"
                                      : WhyNotCountable(sides_, bases.contains(CountBasis::kRun));
    const bool repeats = spread <= kEqualShare && (!by_timing || own->IsNone());
    if (not_exact.empty() && repeats) return AddExact(quantity, unit, views);
    AddLogs(quantity, unit, per_step, by_timing);
    QuantityResult& result = out_.quantities.back();
    if (!not_exact.empty()) {
      result.answer = Answer::kCannotTell;
      result.more_runs.reset();
      result.low = result.high = std::nullopt;
      result.now_values.clear();
      result.reason = not_exact;
    } else if (result.answer == Answer::kCannotTell && !by_timing) {
      result.reason = StrCat("not countable: it differs by ", HumanPercent(spread), " between runs of one side");
    }
  }

  bool AreWindows() const { return IsWindow(base_.runs[0].identity) && IsWindow(now_.runs[0].identity); }

  // A window begins and ends within a step, so that its totals, by its steps, are not exact.
  void AddWindowCount(const std::string& name, Unit unit, const View& view) {
    const std::string quantity = StrCat(name, "_per_step");
    if (const std::string why = WhyNotCountable(sides_, false); !why.empty()) return AddUnknown(quantity, unit, why);
    const bool counter = std::ranges::find(kByCounters, name) != std::end(kByCounters);
    QuantityResult& result = Add(quantity, unit);
    result.exact = true;
    result.base = Mean(view.base);
    result.now = Mean(view.now);
    result.now_values = view.now;
    const double tolerance = CountTolerance(base_.runs[0], *result.base, now_.runs[0], *result.now, counter);
    const bool equal = std::abs(*result.now - *result.base) <= tolerance;
    if (*result.base != 0) {
      result.change = view.Change();
      result.low = std::max(*result.change - tolerance / *result.base, -1.0);
      result.high = *result.change + tolerance / *result.base;
    } else if (equal) {
      result.change = result.low = result.high = 0;
    }
    result.answer = equal ? Answer::kEquivalent : *result.now > *result.base ? Answer::kWorse : Answer::kBetter;
  }

  // The quantity is as in the view with the smallest change; `low` to `high` has the changes of all views. If it is
  // equal in one view, it is equal.
  void AddExact(const std::string& name, Unit unit, const std::vector<View>& views) {
    QuantityResult& result = Add(name, unit);
    const View& own = views.front();
    const View* nearest = &own;
    result.exact = true;
    result.base = Mean(own.base);
    result.now = Mean(own.now);
    result.now_values = own.now;
    bool equal = *result.now == 0;
    if (*result.base != 0) {
      for (const View& view : views) {
        if (std::abs(view.Change()) < std::abs(nearest->Change())) nearest = &view;
      }
      const double change = nearest->Change();
      equal = std::abs(change) <= kEqualShare;
      result.change = result.low = result.high = change;
      for (const View& view : views) {
        if (equal) break;
        result.low = std::min(*result.low, view.Change());
        result.high = std::max(*result.high, view.Change());
      }
      if (nearest != &own) result.now = *result.base * (1 + change);
    } else if (equal) {
      result.change = result.low = result.high = 0;
    }
    result.constant = nearest->IsConstant();
    result.answer = equal ? Answer::kEquivalent : *result.now > *result.base ? Answer::kWorse : Answer::kBetter;
  }

  // `by_chance`: the values are counts of independent events, so that the scatter of a count of n is at least its root.
  void AddLogs(const std::string& name, Unit unit, const Value& value, bool by_chance = false) {
    const auto base = ValuesOf(base_, value), now = ValuesOf(now_, value);
    if (!base.has_value() || !now.has_value()) return AddUnknown(name, unit, WhyNotInAll(value));
    const auto positive = [](double number) { return number > 0; };
    if (!std::ranges::all_of(*base, positive) || !std::ranges::all_of(*now, positive)) {
      AddUnknown(name, unit, "it is 0 in some runs and differs between runs of one side");
      out_.quantities.back().base = Mean(*base);
      out_.quantities.back().now = Mean(*now);
      return;
    }
    AddEstimate(name, unit, Logs(base_, *base, by_chance), Logs(now_, *now, by_chance), false);
    out_.quantities.back().now_values = *now;
  }

  void AddEstimate(const std::string& name, Unit unit, const std::vector<RunValue>& base,
                   const std::vector<RunValue>& now, bool is_step_time) {
    const bool paired = options_.paired && base.size() == now.size() && base.size() > 1;
    const Estimate estimate = paired ? EstimatePairedChange(base, now) : EstimateChange(base, now);
    FillEstimate(estimate, GeometricMean(base), &Add(name, unit));
    if (is_step_time) Warn(estimate);
  }

  void FillEstimate(const Estimate& estimate, double base, QuantityResult* filled) {
    QuantityResult& result = *filled;
    const Decision decision = Decide(estimate, out_.margin, options_.budget_share);
    result.base = base;
    result.now = *result.base * std::exp(estimate.change);
    result.change = std::expm1(estimate.change);
    if (estimate.known) {
      const ConfidenceInterval interval = IntervalOf(estimate, out_.confidence);
      result.low = interval.low;
      result.high = interval.high;
    }
    result.answer = decision.answer;
    result.more_runs = decision.more_runs;
    if (result.answer == Answer::kCannotTell) {
      result.reason = UnclearReason(estimate, out_.margin, out_.confidence, base_.runs.size(), now_.runs.size());
    }
  }

  void Warn(const Estimate& estimate) {
    if (estimate.warming) {
      out_.warnings.emplace_back("the first run of each side is slower than all others of it, and left out");
    }
    if (estimate.disturbed && !estimate.trend && !estimate.warming) {
      out_.warnings.emplace_back(
          "the machine was disturbed: runs scatter widely or follow each other's times; only clear changes are named");
    }
    if (estimate.apart && !estimate.in_turns) {
      out_.warnings.emplace_back(
          "the sides were not run alternately: what changed on the machine between them counts as a change of the "
          "program");
    }
    if (!estimate.trend) return;
    out_.warnings.emplace_back(
        estimate.apart && !estimate.in_turns
            ? "the step time drifts within the sides: the interval allows for as much between them"
            : "the step time drifts from run to run: a straight line was taken away");
  }

  const CompareOptions& options_;
  const Sides& sides_;
  const Side& base_;
  const Side& now_;
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

void WithdrawTimes(const std::string& reason, Comparison* comparison, bool keeps_cpu_time) {
  comparison->answer = Answer::kCannotTell;
  comparison->reason = reason;
  for (QuantityResult& quantity : comparison->quantities) {
    if (quantity.exact || quantity.unit == Unit::kBytes || (keeps_cpu_time && quantity.name == "cpu_time")) continue;
    quantity.answer = Answer::kCannotTell;
    quantity.reason = reason;
    quantity.low = quantity.high = std::nullopt;
    quantity.more_runs.reset();
    quantity.now_values.clear();
  }
  comparison->long_steps = false;
}

namespace {

// Where no run has known steps, each run is compared as one step.
bool AreWholeRuns(const Sides& sides) {
  const auto is_whole = [](const RunNumbers& run) { return run.IsWholeRun(); };
  return !sides.base.runs.empty() && !sides.now.runs.empty() && std::ranges::all_of(sides.base.runs, is_whole) &&
         std::ranges::all_of(sides.now.runs, is_whole);
}

void MakeOneStep(Side* side) {
  for (RunNumbers& run : side->runs) {
    run.steps = 1;
    run.irregular_steps = 0;
    run.steps_s = {*run.wall_s};
    run.median_step_s = run.mean_step_s = *run.wall_s;
    run.no_times.clear();
  }
}

// The typical step leaves the longest steps out, and those that are irregular are no part of the mean. `name`: of the
// quantity that is certainly worse, although the typical step is not; null: none.
const QuantityResult* CertainlyWorse(const Comparison& comparison, std::string_view name) {
  for (const QuantityResult& quantity : comparison.quantities) {
    const bool is_certain = quantity.answer == Answer::kWorse && quantity.low.value_or(0) > comparison.margin;
    if (quantity.name == name && is_certain) return &quantity;
  }
  return nullptr;
}

void HeedLongSteps(Comparison* comparison) {
  if (comparison->one_process || comparison->answer == Answer::kWorse) return;
  if (const QuantityResult* const mean = CertainlyWorse(*comparison, "step_time_mean"); mean != nullptr) {
    const bool is_shorter = comparison->answer == Answer::kBetter;
    comparison->answer = is_shorter ? Answer::kCannotTell : Answer::kWorse;
    comparison->reason = is_shorter ? "the typical step is shorter, but some steps are much longer" : "";
    comparison->long_steps = !is_shorter;
    return;
  }
  if (comparison->answer != Answer::kEquivalent) return;
  const QuantityResult* const wall = CertainlyWorse(*comparison, "wall_time");
  if (wall == nullptr) return;
  comparison->answer = Answer::kCannotTell;
  comparison->reason = StrCat("the typical step is the same, but the whole run takes ", HumanPercent(*wall->change),
                              " longer: irregular steps, or what is outside of the steps");
}

// Waits of ranks for each other do not show what takes longer: another rank's lines do.
void FindSlowRank(Comparison* comparison) {
  constexpr double kLeastShare = 0.3;
  const std::vector<RunNumbers>& runs = comparison->now.runs;
  if (comparison->quantities.empty()) return;
  if (std::abs(comparison->quantities.front().change.value_or(0)) <= comparison->margin) return;
  const auto waits = std::ranges::find_if(comparison->blame, [](const BlameRow& row) {
    return row.kind == AmountKind::kPart && row.name == StepPartName(StepPart::kCollectives);
  });
  if (runs.empty() || waits == comparison->blame.end() || waits->now <= waits->base) return;
  if (waits->share.value_or(0) < kLeastShare || !runs.front().waits_for_rank.has_value()) return;
  const bool all_alike = std::ranges::all_of(
      runs, [&](const RunNumbers& run) { return run.waits_for_rank == runs.front().waits_for_rank; });
  if (!all_alike) return;
  comparison->waits_for_rank = runs.front().waits_for_rank;
  comparison->waits_for = runs.front().waits_for;
  comparison->are_waits_sure = waits->significant;
}

}  // namespace

Comparison Compare(Side base, Side now, const CompareOptions& options) {
  Comparison out;
  out.margin = options.margin;
  ChosenRuns runs = ChooseRuns({std::move(base), std::move(now)}, options.any_program);
  out.whole_runs = AreWholeRuns(runs.times);
  if (out.whole_runs) {
    MakeOneStep(&runs.times.base);
    MakeOneStep(&runs.times.now);
  }
  const Comparability comparable = CheckComparable(runs, options.any_program);
  out.reason = comparable.reason;
  out.warnings = comparable.warnings;
  for (std::string& warning : runs.warnings) out.warnings.push_back(std::move(warning));
  out.one_process = AreOfOneProcess(runs.times);
  if (out.reason.empty()) {
    Comparing(options, runs.times, &out).AddTimes(comparable.no_times);
    Comparing(options, runs.ForAll(), &out).AddMemory();
    Comparing(options, runs.ForCounts(), &out).AddCounts(comparable.no_counts);
    if (!out.whole_runs) Comparing(options, runs.ForWall(), &out).AddWall(comparable.no_wall);
    if (!out.one_process) Comparing(options, runs.ForWall(), &out).AddCpu(comparable.no_wall);
    out.answer = out.quantities.front().answer;
    out.reason = out.quantities.front().reason;
    HeedLongSteps(&out);
    if (out.one_process) {
      const std::string warning = StarvationOfWindows(runs.times, out);
      if (!warning.empty()) out.warnings.push_back(warning);
    } else if (const std::string why = WhyCpusDiffer(runs.times, out); !why.empty()) {
      WithdrawTimes(why, &out, /*keeps_cpu_time=*/true);
    }
  }
  out.no_totals = comparable.reason.empty() ? comparable.no_totals : comparable.reason;
  out.counted = std::move(runs.counts);
  out.base = std::move(runs.times.base);
  out.now = std::move(runs.times.now);
  if (comparable.reason.empty() && comparable.no_times.empty()) {
    BlameTimes(&out);
    FindSlowRank(&out);
  }
  if (comparable.reason.empty() && !comparable.no_times.empty()) out.shares = ChangedShares(out.base, out.now);
  if (out.no_totals.empty()) BlameAllocations(&out);
  return out;
}

}  // namespace tbprof
