// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/step_change.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "writer/base/median.h"
#include "writer/steps/length_change.h"
#include "writer/verdict/gil_holders.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/span_account.h"
#include "writer/verdict/step_span.h"

namespace tbprof {
namespace {

// Steps that are less certain may be cut in another way from some time on.
constexpr double kLeastConfidence = 0.7;
// Less than this share of the difference explains nothing.
constexpr double kLeastExplained = 1.0 / 3;
// A line with the lines that it calls is preferred to its callers from this share on.
constexpr double kMostly = 0.5;
// Waits for a CPU do not depend on the line.
constexpr double kBeyondLines = 0.6;
// A line that has this share of the time on both sides is around the loop.
constexpr double kAround = 0.9;
// Share of the time in one line, of a loop's caller; and in the lines of both sides, of a change within one loop.
constexpr double kCaller = 0.98, kInCommon = 0.02;
// Growth of the number of operations that a recorded one stands for, from one side to the other.
constexpr double kSampledMore = 1.2;
// Share of a step in which it waits for a CPU, and how much more it is in the slower steps, from which on what
// uses the CPUs may be why code runs slower: it shares caches and cores.
constexpr double kShared = 0.05, kSharedMore = 0.03;

using PartTimes = std::array<double, kStepParts>;  // ps

struct LineTimes {
  double ps[2] = {0, 0};  // per step, before and after
  PartTimes parts{};      // the difference
  AccountRow row;         // one of the line's
  size_t depth = 0;       // the program's own lines around it
};

// The lines on a row's stack that are the program's own, outermost first.
std::vector<uint32_t> LinesOf(const PythonTags& tags, uint32_t frame) {
  std::vector<uint32_t> lines;
  for (uint32_t at = frame; at != 0; at = tags.OwnCallerOf(at)) lines.push_back(tags.LineOf(at));
  std::ranges::reverse(lines);
  return lines;
}

struct SideRow {
  std::vector<uint32_t> lines;
  double ps[2];
};

// Whether one loop ended and another began: a line that called all of one side's work called none of the other's.
bool IsOtherLoop(std::vector<SideRow> rows) {
  for (size_t depth = 0; !rows.empty(); ++depth) {
    std::map<uint32_t, std::array<double, 2>> lines;
    double sums[2] = {0, 0};
    for (const SideRow& row : rows) {
      for (const size_t side : {0, 1}) {
        sums[side] += row.ps[side];
        lines[depth < row.lines.size() ? row.lines[depth] : 0][side] += row.ps[side];
      }
    }
    if (sums[0] <= 0 || sums[1] <= 0) return false;
    uint32_t most[2] = {0, 0};
    double common = 0;
    for (const auto& [line, ps] : lines) {
      common += std::min(ps[0], ps[1]);
      for (const size_t side : {0, 1}) {
        if (ps[side] >= kCaller * sums[side]) most[side] = line;
      }
    }
    if (most[0] == 0 || most[1] == 0) return false;
    if (most[0] != most[1]) return common < kInCommon * std::min(sums[0], sums[1]);
    std::erase_if(rows, [&](const SideRow& row) { return depth >= row.lines.size() || row.lines[depth] != most[0]; });
  }
  return false;
}

// Least ratio of the difference of the mean steps to that of the median ones.
constexpr double kLeastOfMedians = 0.5;

class Explainer {
 public:
  Explainer(const Timeline& timeline, const PythonTags& tags, uint32_t thread, const LengthChange& found)
      : timeline_(timeline), tags_(tags), thread_(thread) {
    int64_t free_from = INT64_MIN;
    for (size_t i = 0; i < found.sides.size(); ++i) {
      if (found.sides[i] == StepSide::kNeither) continue;
      const Step& step = timeline.steps[i];
      const int64_t from = std::max(step.start_ps, free_from);
      if (step.end_ps <= from) continue;
      const bool after = found.sides[i] == StepSide::kAfter;
      spans_[after].push_back({from, step.end_ps});
      free_from = step.end_ps;
    }
    for (const size_t side : {0, 1}) {
      if (spans_[side].empty()) continue;
      counts_[side] = spans_[side].size();
      means_[side] = static_cast<double>(LengthOf(spans_[side])) / static_cast<double>(counts_[side]);
      AddSide(AccountOf(timeline, tags, thread, spans_[side]), side);
    }
    difference_ = means_[1] - means_[0];
  }

  uint64_t count(size_t side) const { return counts_[side]; }
  bool HasOtherLoop() const { return IsOtherLoop(rows_); }

  void Explain(StepChange* change) const {
    if (counts_[0] == 0 || counts_[1] == 0 || difference_ == 0) return;
    // The change is one of medians, and what explains it one of means: with many long steps these differ.
    const auto of_medians = static_cast<double>(change->after_ps - change->before_ps);
    if (difference_ * of_medians <= 0 || std::abs(difference_) < kLeastOfMedians * std::abs(of_medians)) return;
    const StepPart part = LargestPart(parts_);
    const double of_part = ShareOf(parts_[static_cast<size_t>(part)]);
    if (of_part >= kLeastExplained && part != StepPart::kRest) {
      change->part = part;
      change->part_ps = std::llround(parts_[static_cast<size_t>(part)]);
    }
    if (of_part >= kBeyondLines && part == StepPart::kStarvation) return;
    change->lacks_cpus = change->part != StepPart::kRest && IsOfCode(part) && difference_ > 0 && LackCpusMore();
    if (change->part == StepPart::kGil) {
      NameGilHolder(change);
      return;
    }
    const LineTimes* const line = ChooseLine();
    if (line == nullptr) return;
    change->line = PlaceOf(line->row);
    change->line_ps = std::llround(line->ps[1] - line->ps[0]);
    change->line_part = LargestPart(line->parts);
    change->line_part_ps = std::llround(line->parts[static_cast<size_t>(change->line_part)]);
  }

 private:
  static bool IsOfCode(StepPart part) { return part == StepPart::kOperations || part == StepPart::kPython; }
  // Whether the later steps wait more for a CPU than those before.
  bool LackCpusMore() const { return starved_[1] >= kShared && starved_[1] >= starved_[0] + kSharedMore; }

  void AddSide(const Account& account, size_t side) {
    starved_[side] = static_cast<double>(account.parts()[static_cast<size_t>(StepPart::kStarvation)]) /
                     std::max(means_[side] * static_cast<double>(counts_[side]), 1.0);
    const auto count = static_cast<double>(counts_[side]);
    const double sign = side == 1 ? 1 : -1;
    for (size_t i = 0; i < kStepParts; ++i) {
      parts_[i] += sign * static_cast<double>(account.parts()[i]) / count;
    }
    // Time of a row by part: rows of all parts would be merged.
    for (size_t part = 0; part < kStepParts; ++part) {
      const auto of_part = [&](const AccountRow& row) { return static_cast<size_t>(row.part) == part; };
      for (const AccountRow& row : account.RowsOf(of_part)) AddRow(row, part, side, sign, count);
    }
  }

  void AddRow(const AccountRow& row, size_t part, size_t side, double sign, double count) {
    const double ps = static_cast<double>(row.ps) / count;
    std::vector<uint32_t> lines = LinesOf(tags_, row.frame);
    const auto add = [&](LineTimes* into, const AccountRow& place) {
      if (into->ps[0] + into->ps[1] == 0) into->row = place;
      into->ps[side] += ps;
      into->parts[part] += sign * ps;
    };
    if (lines.empty() && row.call_site != 0 && !HasPython()) add(&functions_[row.call_site], row);
    SideRow of_loop{lines, {0, 0}};
    of_loop.ps[side] = ps;
    if (!lines.empty()) rows_.push_back(std::move(of_loop));
    for (size_t i = 0; i < lines.size(); ++i) {
      // A function that calls itself has a line more than once.
      if (std::find(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(i), lines[i]) !=
          lines.begin() + static_cast<ptrdiff_t>(i)) {
        continue;
      }
      AccountRow place = row;
      place.frame = lines[i];
      LineTimes& into = lines_[lines[i]];
      add(&into, place);
      into.depth = std::max(into.depth, i);
    }
  }

  bool HasPython() const {
    const PythonThread* const python = timeline_.python.OfThread(thread_);
    return python != nullptr && !python->runs.empty();
  }

  double ShareOf(double ps) const { return difference_ == 0 ? 0 : ps / difference_; }

  StepPart LargestPart(const PartTimes& parts) const {
    size_t best = static_cast<size_t>(StepPart::kRest);
    for (size_t i = 0; i < kStepParts; ++i) {
      if (ShareOf(parts[i]) > ShareOf(parts[best])) best = i;
    }
    return static_cast<StepPart>(best);
  }

  // The innermost line that has most of the difference; else the line or function with the most of it.
  const LineTimes* ChooseLine() const {
    const LineTimes *innermost = nullptr, *largest = nullptr;
    const auto difference = [](const LineTimes& line) { return line.ps[1] - line.ps[0]; };
    const auto look_at = [&](const LineTimes& line) {
      const bool around = line.ps[0] >= kAround * means_[0] && line.ps[1] >= kAround * means_[1];
      const double share = ShareOf(difference(line));
      if (around || share < kLeastExplained) return;
      if (largest == nullptr || share > ShareOf(difference(*largest))) largest = &line;
      if (share >= kMostly && (innermost == nullptr || line.depth > innermost->depth)) innermost = &line;
    };
    for (const auto& [frame, line] : lines_) look_at(line);
    for (const auto& [function, line] : functions_) look_at(line);
    return innermost != nullptr ? innermost : largest;
  }

  // A wait for the GIL is long because of what another thread does, wherever it happens.
  void NameGilHolder(StepChange* change) const {
    const WaitClasses classes(timeline_);
    std::vector<WaitSlice> waits = ThreadTime(timeline_, classes, thread_, spans_[difference_ > 0]).waits();
    std::erase_if(waits, [](const WaitSlice& wait) { return wait.kind != WaitClass::kGil; });
    const Blocker holder = FindGilHolder(timeline_, tags_, thread_, waits);
    if (!holder.found || holder.rows.empty() || holder.rows.front().frame == 0) return;
    change->line = PlaceOf(holder.rows.front());
    change->line_part = StepPart::kGil;
    change->line_ps = change->line_part_ps = change->part_ps;
  }

  PythonLine PlaceOf(const AccountRow& row) const {
    if (row.frame == 0) return {0, -1, row.call_site};
    const PythonStack& frame = timeline_.python.stacks[row.frame];
    const PythonFunction& function = timeline_.python.functions[frame.function];
    return {function.file, frame.line, function.name};
  }

  const Timeline& timeline_;
  const PythonTags& tags_;
  const uint32_t thread_;
  std::vector<TimeSpan> spans_[2];
  uint64_t counts_[2] = {0, 0};
  double means_[2] = {0, 0}, difference_ = 0;  // ps
  double starved_[2] = {0, 0};                 // shares of waits for a CPU
  PartTimes parts_{};
  std::map<uint32_t, LineTimes> lines_;  // with the lines that they call
  std::map<StringId, LineTimes> functions_;
  std::vector<SideRow> rows_;
};

// The mean number of operations that a recorded one stands for, in that time. `weights`: in order of time.
double MeanWeight(const std::vector<TorchWeight>& weights, int64_t from_ps, int64_t to_ps) {
  auto weight = std::ranges::upper_bound(weights, from_ps, {}, &TorchWeight::at_ps);
  double sum = 0, at = weight == weights.begin() ? 1 : std::prev(weight)->weight;
  int64_t from = from_ps;
  for (; weight != weights.end() && weight->at_ps < to_ps; ++weight) {
    sum += at * static_cast<double>(weight->at_ps - from);
    from = weight->at_ps;
    at = weight->weight;
  }
  sum += at * static_cast<double>(to_ps - from);
  return to_ps > from_ps ? sum / static_cast<double>(to_ps - from_ps) : 1;
}

// Where more operations are left out, two steps may look like one: the change may be one of the recording.
bool IsOfSampling(const Timeline& timeline, uint32_t process, const LengthChange& found) {
  if (timeline.step_source == StepSource::kMarked || timeline.processes[process].torch.skipped == 0) return false;
  const std::vector<TorchWeight>& weights = timeline.processes[process].torch.weights;
  double sums[2] = {0, 0}, counts[2] = {0, 0};
  for (size_t i = 0; i < found.sides.size(); ++i) {
    if (found.sides[i] == StepSide::kNeither) continue;
    const bool after = found.sides[i] == StepSide::kAfter;
    sums[after] += MeanWeight(weights, timeline.steps[i].start_ps, timeline.steps[i].end_ps);
    ++counts[after];
  }
  if (counts[0] == 0 || counts[1] == 0) return false;
  const double before = sums[0] / counts[0], after = sums[1] / counts[1];
  return found.after_ps > found.before_ps ? after >= kSampledMore * before : before >= kSampledMore * after;
}

// The steps' lengths without the thread's waits for a CPU, which other programs cause. Empty: not known.
std::vector<int64_t> LengthsOnCpu(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& steps) {
  const ThreadUsage* const usage = timeline.UsageOfThread(thread);
  if (usage == nullptr || usage->points.size() < 2) return {};
  const std::vector<UsagePoint>& points = usage->points;
  // The wait until a moment; between two points it grows evenly.
  size_t at = 1;
  const auto waited = [&](int64_t ps) {
    while (at + 1 < points.size() && points[at].at_ps < ps) ++at;
    const UsagePoint &from = points[at - 1], &to = points[at];
    if (to.at_ps <= from.at_ps) return static_cast<double>(to.run_delay_ps);
    const double share =
        std::clamp(static_cast<double>(ps - from.at_ps) / static_cast<double>(to.at_ps - from.at_ps), 0.0, 1.0);
    return static_cast<double>(from.run_delay_ps) + share * static_cast<double>(to.run_delay_ps - from.run_delay_ps);
  };
  std::vector<int64_t> lengths;
  for (const TimeSpan& step : steps) {
    const int64_t length = step.end_ps - step.start_ps;
    const double from = waited(step.start_ps);
    const auto wait = static_cast<int64_t>(waited(step.end_ps) - from);
    lengths.push_back(std::max({length - wait, length / 20, int64_t{1}}));
  }
  return lengths;
}

bool HasSureSteps(const Timeline& timeline) {
  const bool real = timeline.step_source != StepSource::kNone && timeline.step_source != StepSource::kWholeCapture;
  return real && !timeline.steps.empty() && timeline.steps.front().thread < timeline.threads.size() &&
         !timeline.steps_in_detail && timeline.step_confidence >= kLeastConfidence &&
         std::ranges::none_of(timeline.step_loops, &StepLoop::may_be_step);
}

// The steps of one thread; empty: they are of several, and overlap, or they are too uncertain.
std::vector<TimeSpan> ComparableSteps(const Timeline& timeline) {
  std::vector<TimeSpan> steps;
  if (!HasSureSteps(timeline)) return steps;
  const uint32_t thread = timeline.steps.front().thread;
  for (const Step& step : timeline.steps) {
    if (step.thread != thread || step.end_ps <= step.start_ps) return {};
    steps.push_back({step.start_ps, step.end_ps});
  }
  return steps;
}

}  // namespace

LongSteps FindLongSteps(const Timeline& timeline, const PythonTags& tags) {
  constexpr int64_t kTimesAsLong = 3;
  constexpr double kLeastShare = 0.2, kMostOfSteps = 0.4;
  constexpr uint64_t kFewest = 3, kWarmUp = 3;
  const std::vector<int64_t> lengths = LengthsOf(ComparableSteps(timeline));
  std::vector<int64_t> regular;
  for (size_t i = kWarmUp; i < lengths.size(); ++i) {
    if (timeline.steps[i].is_regular) regular.push_back(lengths[i]);
  }
  const int64_t median = Median(std::move(regular));
  LengthChange sides;
  std::vector<int64_t> of_sides[2];
  double sums[2] = {0, 0};
  for (size_t i = 0; i < lengths.size(); ++i) {
    // The first steps compile, and fill caches.
    const size_t side = lengths[i] / kTimesAsLong > median ? 1 : 0;
    const bool counts = i >= kWarmUp && timeline.steps[i].is_regular;
    sides.sides.push_back(!counts ? StepSide::kNeither : side == 1 ? StepSide::kAfter : StepSide::kBefore);
    if (!counts) continue;
    of_sides[side].push_back(lengths[i]);
    sums[side] += static_cast<double>(lengths[i]);
  }
  LongSteps found;
  found.share = sums[1] / std::max(sums[0] + sums[1], 1.0);
  const auto count = static_cast<double>(of_sides[1].size()), others = static_cast<double>(of_sides[0].size());
  // Those of the start alone are a warm-up.
  size_t late = 0;
  for (size_t i = sides.sides.size() / 2; i < sides.sides.size(); ++i) late += sides.sides[i] == StepSide::kAfter;
  if (late * 4 < of_sides[1].size()) return {};
  if (of_sides[1].size() < kFewest || count > kMostOfSteps * (count + others) || found.share < kLeastShare) return {};
  found.count = of_sides[1].size();
  found.steps = of_sides[0].size() + of_sides[1].size();
  found.change.before_ps = Median(std::move(of_sides[0]));
  found.change.after_ps = Median(std::move(of_sides[1]));
  found.mean_ps = static_cast<int64_t>(sums[1] / count);
  Explainer(timeline, tags, timeline.steps.front().thread, sides).Explain(&found.change);
  return found;
}

StepChange FindStepChange(const Timeline& timeline) {
  StepChange change;
  const std::vector<TimeSpan> steps = ComparableSteps(timeline);
  if (steps.empty()) return change;
  const uint32_t thread = timeline.steps.front().thread;
  // A change of the program itself is clearer without what other programs do.
  LengthChange found = FindLengthChange(steps, LengthsOnCpu(timeline, thread, steps));
  if (found.kind == ChangeKind::kNone) found = FindLengthChange(steps, LengthsOf(steps));
  if (found.kind == ChangeKind::kNone || IsOfSampling(timeline, timeline.threads[thread].process, found)) return change;
  const PythonTags tags(timeline);
  const Explainer explainer(timeline, tags, thread, found);
  if (explainer.HasOtherLoop()) return change;
  change.kind = found.kind;
  change.at_ps = timeline.steps[found.first].start_ps;
  change.step = timeline.steps[found.first].number;
  if (found.kind == ChangeKind::kInterim) change.until_ps = timeline.steps[found.end - 1].end_ps;
  change.before_ps = found.before_ps;
  change.after_ps = found.after_ps;
  change.steps_before = explainer.count(0);
  change.steps_after = explainer.count(1);
  explainer.Explain(&change);
  return change;
}

}  // namespace tbprof
