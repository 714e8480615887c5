// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/torch_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "wire/records.h"
#include "writer/base/median.h"
#include "writer/steps/step_loops.h"
#include "writer/steps/torch_optimizers.h"
#include "writer/steps/torch_ranges.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace torch_steps {
namespace {

constexpr size_t kFewestSure = 3;
// If this share of the batches that an optimizer follows has a backward pass, each training batch must have one.
constexpr double kWitnessed = 0.95;
// Share of the usual work of a training batch: less work does not count.
constexpr double kLeastWork = 0.05;
// If more equal optimizers than this follow one batch, they are not parts of one step.
constexpr size_t kMostAlike = 2;
constexpr double kMostCrowded = 0.2;
constexpr size_t kWarmUpSteps = 3;
constexpr int64_t kWarmUpFactor = 2, kPauseFactor = 4;
constexpr double kMostPauses = 0.05;

// Returns the most frequent number; of several, the smallest.
size_t Mode(const std::vector<size_t>& numbers) {
  std::map<size_t, size_t> counts;
  for (const size_t number : numbers) ++counts[number];
  const auto usual =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return usual == counts.end() ? 0 : usual->first;
}

// Batches, and the optimizers or other work behind them.
struct Group {
  std::vector<size_t> batches;  // indexes
  std::vector<size_t> parts;    // indexes of the optimizers, or of the work that replaces them
};

// kUnknown: the observer left operations out, since they cost too much.
enum class Content : uint8_t { kNothing, kWork, kBackward, kUnknown };

class ByBatches {
 public:
  ByBatches(const Timeline& timeline, const ThreadRanges& ranges, const std::vector<int64_t>& backwards,
            const std::vector<Interval>& pauses)
      : timeline_(timeline), ranges_(ranges), backwards_(backwards), by_optimizer_(!ranges.optimizers.empty()) {
    const std::vector<Range>& batches = ranges.batches;
    contents_.resize(batches.size());
    std::vector<int64_t> works(batches.size()), of_training, lengths;
    auto work = ranges.work.begin();
    for (size_t i = 0; i < batches.size(); ++i) {
      for (; work != ranges.work.end() && work->start < EndOf(i); ++work) {
        if (work->start >= batches[i].end) works[i] += work->end - work->start;
      }
      if (AnyIn(backwards, batches[i].start, EndOf(i))) {
        contents_[i] = Content::kBackward;
        of_training.push_back(works[i]);
      }
    }
    // A little work, such as counting a batch's labels before the next batch is requested, is not an evaluation.
    const double least = kLeastWork * static_cast<double>(Median(of_training));
    for (size_t i = 0; i < batches.size(); ++i) {
      if (contents_[i] == Content::kBackward) continue;
      const bool paused = OverlapAny(pauses, batches[i].start, EndOf(i));
      contents_[i] = paused                                                   ? Content::kUnknown
                     : works[i] > 0 && static_cast<double>(works[i]) >= least ? Content::kWork
                                                                              : Content::kNothing;
    }
    for (size_t i = 0; i + 1 < batches.size(); ++i) lengths.push_back(EndOf(i) - batches[i].start);
    usual_length_ = Median(std::move(lengths));
    MakeParts();
    MakeGroups();
  }

  // The usual number of optimizers in a group.
  size_t Optimizers() const { return by_optimizer_ ? usual_parts_ : 1; }

  Found Steps() const {
    Found found;
    found.source = by_optimizer_ ? "Optimizer.step" : "DataLoader";
    size_t unusual = 0, whole = 0;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      const size_t taken = std::min(usual_batches_, Trailing(group));
      if (group.parts.empty() || group.batches.empty()) {
        AddOthers(group.batches, &found);
        continue;
      }
      const size_t begin = group.batches.size() - taken;
      AddOthers({group.batches.begin(), group.batches.begin() + static_cast<ptrdiff_t>(begin)}, &found);
      // Groups at the borders of the capture may be incomplete.
      const bool cut_at_start = i == 0 && begin == 0 && taken < usual_batches_;
      const bool is_last = i + 1 == groups_.size();
      const bool cut_at_end = is_last && (!by_optimizer_ || group.parts.size() < usual_parts_);
      const Range& batch = ranges_.batches[group.batches[begin]];
      const Range& part = parts_[group.parts.back()];
      if (cut_at_start || cut_at_end || !batch.whole || !part.whole) continue;
      const bool lost = !timeline_.drops.empty() && group.parts.size() > usual_parts_;
      found.intervals.push_back({batch.start, is_last ? part.end : EndOf(group.batches.back()), lost ? kLost : ""});
      ++whole;
      if (taken != usual_batches_ || (begin > 0 && !witnessed_) || group.parts.size() != usual_parts_) ++unusual;
    }
    found.confidence = Confidence(whole, unusual);
    if (usual_batches_ > 1) found.loops.push_back(Parts("batches", whole, usual_batches_));
    if (by_optimizer_ && usual_parts_ > 1) found.loops.push_back(Parts("optimizer calls", whole, usual_parts_));
    return found;
  }

 private:
  int64_t EndOf(size_t batch) const {
    return batch + 1 < ranges_.batches.size() ? ranges_.batches[batch + 1].start : INT64_MAX;
  }

  void MakeParts() {
    if (by_optimizer_) {
      parts_ = ranges_.optimizers;
      return;
    }
    const bool trains = std::count(contents_.begin(), contents_.end(), Content::kBackward) > 0;
    const bool works =
        std::count(contents_.begin(), contents_.end(), Content::kNothing) < static_cast<ptrdiff_t>(contents_.size());
    for (size_t i = 0; i < contents_.size(); ++i) {
      const Content least = trains ? Content::kBackward : works ? Content::kWork : Content::kNothing;
      if (contents_[i] < least) continue;
      parts_.push_back({ranges_.batches[i].end, ranges_.batches[i].end, 0, true});
    }
  }

  // An optimizer is placed by its end: its closure may request the batch.
  void MakeGroups() {
    size_t part = 0;
    for (size_t batch = 0; batch <= ranges_.batches.size(); ++batch) {
      const int64_t until = batch < ranges_.batches.size() ? ranges_.batches[batch].start : INT64_MAX;
      for (; part < parts_.size() && parts_[part].end <= until; ++part) {
        if (groups_.empty()) groups_.emplace_back();
        groups_.back().parts.push_back(part);
      }
      if (batch == ranges_.batches.size()) break;
      if (groups_.empty() || !groups_.back().parts.empty()) groups_.emplace_back();
      groups_.back().batches.push_back(batch);
    }
    size_t last_ones = 0, with_backward = 0;
    for (const Group& group : groups_) {
      if (group.batches.empty() || group.parts.empty()) continue;
      if (contents_[group.batches.back()] == Content::kUnknown) continue;
      ++last_ones;
      if (contents_[group.batches.back()] == Content::kBackward) ++with_backward;
    }
    witnessed_ = last_ones > 0 && static_cast<double>(with_backward) >= kWitnessed * static_cast<double>(last_ones);
    std::vector<size_t> batches, parts;
    for (const Group& group : groups_) {
      if (group.batches.empty() || group.parts.empty()) continue;
      batches.push_back(Trailing(group));
      parts.push_back(group.parts.size());
    }
    usual_batches_ = std::max<size_t>(Mode(batches), 1);
    usual_parts_ = std::max<size_t>(Mode(parts), 1);
  }

  // Counts the batches behind the last batch that was processed without a backward pass, if each training batch has
  // one.
  size_t Trailing(const Group& group) const {
    size_t count = 0;
    for (auto batch = group.batches.rbegin(); batch != group.batches.rend(); ++batch, ++count) {
      if (witnessed_ && count > 0 && contents_[*batch] == Content::kWork) break;
    }
    return count;
  }

  // If operations were left out, a single request that is soon followed by the next one, or by none, is the end of the
  // data.
  bool MayHaveWorked(const std::vector<size_t>& batches) const {
    size_t unknown = 0;
    for (const size_t batch : batches) {
      if (contents_[batch] == Content::kUnknown) ++unknown;
      if (contents_[batch] == Content::kWork || contents_[batch] == Content::kBackward) return true;
    }
    if (unknown != 1) return unknown > 1;
    const size_t last = batches.back();
    return EndOf(last) != INT64_MAX && EndOf(last) - ranges_.batches[last].start > usual_length_ / 2;
  }

  // Adds batches before those of a step: of an optimizer that was not called (GradScaler), of an evaluation, or unused
  // ones.
  void AddOthers(std::vector<size_t> batches, Found* found) const {
    if (batches.empty()) return;
    std::vector<Interval> steps;
    while (by_optimizer_ && batches.size() >= usual_batches_) {
      const auto chunk = batches.end() - static_cast<ptrdiff_t>(usual_batches_);
      if (EndOf(batches.back()) == INT64_MAX || !std::all_of(chunk, batches.end(), [&](size_t batch) {
            return contents_[batch] == Content::kBackward && ranges_.batches[batch].whole;
          })) {
        break;
      }
      steps.push_back({ranges_.batches[*chunk].start, EndOf(batches.back()), ""});
      batches.erase(chunk, batches.end());
    }
    if (!batches.empty()) {
      const bool worked = MayHaveWorked(batches);
      int64_t end = EndOf(batches.back());
      if (end == INT64_MAX)
        end = std::max(ranges_.batches.back().end, worked && !ranges_.work.empty() ? ranges_.work.back().end : 0);
      const int64_t start = ranges_.batches[batches.front()].start;
      if (end > start) found->intervals.push_back({start, end, worked ? kEvaluation : kDataOnly});
    }
    found->intervals.insert(found->intervals.end(), steps.rbegin(), steps.rend());
  }

  double Confidence(size_t whole, size_t unusual) const {
    if (static_cast<double>(unusual) > (1 - kUsual) * static_cast<double>(whole)) return kAmbiguous;
    // Without an optimizer each batch could be a part of a step.
    if (!by_optimizer_) return backwards_.empty() ? kByOrder : kAmbiguous;
    // An evaluation after each step looks like accumulated batches.
    if (usual_batches_ > 1 && !witnessed_) return kAmbiguous;
    return kClear;
  }

  const Timeline& timeline_;
  const ThreadRanges& ranges_;
  const std::vector<int64_t>& backwards_;
  const bool by_optimizer_;
  std::vector<Content> contents_;  // of the time from each batch to the next
  std::vector<Range> parts_;
  std::vector<Group> groups_;
  bool witnessed_ = false;  // nearly every batch that trains has a backward pass behind it
  size_t usual_batches_ = 1, usual_parts_ = 1;
  int64_t usual_length_ = 0;  // from a batch to the next
};

// The share of the optimizers that are in steps with several times as many of them as usual: a part of the program that
// trains without a loader is one such step.
double InCrowdedSteps(const Found& found, const std::vector<Range>& optimizers) {
  constexpr size_t kCrowded = 3;
  std::vector<size_t> counts;
  for (const Interval& interval : found.intervals) {
    if (!interval.label.empty()) continue;
    const auto first = std::ranges::upper_bound(optimizers, interval.start, {}, &Range::end);
    const auto behind = std::ranges::upper_bound(optimizers, interval.end, {}, &Range::end);
    counts.push_back(static_cast<size_t>(std::max<ptrdiff_t>(behind - first, 0)));
  }
  const size_t usual = Median(counts);
  if (usual == 0) return 0;
  size_t all = 0, crowded = 0;
  for (const size_t count : counts) {
    all += count;
    if (count > kCrowded * usual) crowded += count;
  }
  return all == 0 ? 0 : static_cast<double>(crowded) / static_cast<double>(all);
}

Found FindSteps(const Timeline& timeline, const ThreadRanges& ranges, const std::vector<int64_t>& backwards) {
  const std::vector<Interval> pauses = Pauses(timeline, timeline.threads[ranges.thread].process);
  std::optional<ByOptimizers> by_optimizers;
  if (ranges.optimizers.size() >= 2) by_optimizers.emplace(timeline, ranges, backwards, pauses);
  Found found;
  if (!ranges.batches.empty()) {
    const ByBatches by_batches(timeline, ranges, backwards, pauses);
    found = by_batches.Steps();
    if (!by_optimizers.has_value()) return found;
    // Optimizers that the program calls in turn again and again, between two batches, make a step of their own: these
    // are parts of a batch, or the batches are those of an occasional evaluation.
    const size_t optimizers = by_batches.Optimizers(), period = by_optimizers->period();
    if (optimizers > period) {
      if (optimizers > kMostAlike * period) {
        found = by_optimizers->Steps();
        const double steps_each = static_cast<double>(optimizers) / static_cast<double>(period);
        found.loops.push_back({"batches", ranges.batches.size(), steps_each, true});
      }
      found.confidence = std::min(found.confidence, kAmbiguous);
    } else if (InCrowdedSteps(found, ranges.optimizers) > kMostCrowded) {
      Found other = by_optimizers->Steps(/*names_evaluations=*/false);
      if (other.intervals.size() > found.intervals.size()) found = std::move(other);
      found.confidence = std::min(found.confidence, kAmbiguous);
    }
  } else if (by_optimizers.has_value()) {
    found = by_optimizers->Steps();
  }
  return found;
}

void Label(Found* found) {
  std::vector<int64_t> lengths;
  for (const Interval& interval : found->intervals) {
    if (interval.label.empty()) lengths.push_back(interval.end - interval.start);
  }
  const int64_t median = Median(lengths);
  // If many steps are long, the program runs that way; they are not pauses.
  const auto is_pause = [&](int64_t length) { return length / kPauseFactor > median; };
  const auto pauses = static_cast<size_t>(std::count_if(lengths.begin(), lengths.end(), is_pause));
  const bool has_pauses =
      pauses <= kWarmUpSteps || static_cast<double>(pauses) <= kMostPauses * static_cast<double>(lengths.size());
  size_t steps = 0;
  for (Interval& interval : found->intervals) {
    if (!interval.label.empty()) continue;
    const int64_t length = interval.end - interval.start;
    const bool warm_up = steps++ < kWarmUpSteps && length / kWarmUpFactor > median;
    if (warm_up) {
      interval.label = "warm-up";
    } else if (has_pauses && is_pause(length)) {
      interval.label = "irregular: a pause";
    }
  }
}

// Whether `later` is of a process that was started for the same rank after the one of `earlier` had ended (torchrun
// --max-restarts), and got far enough to be the one that the user asks about.
bool IsLaterAttempt(const Timeline& timeline, const ThreadRanges& earlier, const ThreadRanges& later) {
  constexpr size_t kLeastPart = 10;
  const Process& before = timeline.processes[timeline.threads[earlier.thread].process];
  const Process& after = timeline.processes[timeline.threads[later.thread].process];
  if (after.rank < 0 || before.rank != after.rank || before.parent != after.parent || after.forked) return false;
  if (before.pid == after.pid || before.end_ps <= 0 || before.end_ps > after.start_ps) return false;
  const auto turns = [](const ThreadRanges& of) { return std::max(of.optimizers.size(), of.batches.size()); };
  return turns(later) * kLeastPart >= turns(earlier);
}

std::vector<LoopStep> LoopSteps(const Found& found, const std::vector<Range>& batches) {
  std::vector<LoopStep> steps;
  LoopStep next;
  auto batch = batches.begin();
  for (const Interval& interval : found.intervals) {
    next.after_end_of_data |= interval.label == kDataOnly;
    next.after_evaluation |= interval.label == kEvaluation;
    if (interval.label == kDataOnly || interval.label == kEvaluation) continue;
    next.length_ps = interval.end - interval.start;
    while (batch != batches.end() && batch->start < interval.start) ++batch;
    for (; batch != batches.end() && batch->start < interval.end; ++batch) {
      next.has_batch = true;
      next.length_ps -= std::min(batch->end, interval.end) - batch->start;
    }
    steps.push_back(std::exchange(next, {}));
  }
  return steps;
}

}  // namespace
}  // namespace torch_steps

MarkedSteps FindTorchSteps(const Timeline& timeline, uint32_t process) {
  using namespace torch_steps;
  MarkedSteps out;
  const Types types(timeline);
  if (!types.any()) return out;
  std::optional<ThreadRanges> best;
  bool of_process = false;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    ThreadRanges ranges = ReadThread(timeline, i, types);
    if (ranges.optimizers.empty() && ranges.batches.empty()) continue;
    const bool here = timeline.threads[i].process == process;
    // `process` comes first, and optimizers before loaders.
    const auto rank = [](bool is_here, const ThreadRanges& of) {
      return std::make_tuple(is_here, of.optimizers.size(), of.batches.size());
    };
    if (best.has_value() && !IsLaterAttempt(timeline, *best, ranges) && rank(here, ranges) <= rank(of_process, *best)) {
      continue;
    }
    of_process = here;
    best = std::move(ranges);
  }
  if (!best.has_value()) return out;
  Found found = FindSteps(timeline, *best, Backwards(timeline, timeline.threads[best->thread].process, types));
  std::erase_if(found.intervals, [](const Interval& interval) { return interval.end <= interval.start; });
  std::stable_sort(found.intervals.begin(), found.intervals.end(),
                   [](const Interval& a, const Interval& b) { return a.start < b.start; });
  const auto count = [&found] {
    return static_cast<size_t>(std::count_if(found.intervals.begin(), found.intervals.end(),
                                             [](const Interval& interval) { return interval.label.empty(); }));
  };
  if (count() == 0) return out;
  out.confidence = found.confidence;
  if (count() < kFewestSure) out.confidence = std::min(out.confidence, kAmbiguous);
  if (!timeline.drops.empty()) out.confidence = std::min(out.confidence, kWithLoss);
  if (auto outer = FindOuterLoop(LoopSteps(found, best->batches)); outer.has_value()) {
    if (outer->may_be_step) out.confidence = std::min(out.confidence, kAmbiguous);
    found.loops.push_back(*std::move(outer));
  }
  out.loops = std::move(found.loops);
  Label(&found);
  int64_t steps = 0;
  std::map<std::string_view, int64_t> others;
  for (const Interval& interval : found.intervals) {
    const bool is_step = interval.label != kEvaluation && interval.label != kDataOnly;
    Step step;
    step.start_ps = interval.start;
    step.end_ps = interval.end;
    step.number = is_step ? steps++ : others[interval.label]++;
    step.name = interval.label.empty() ? "step" : interval.label;
    step.thread = best->thread;
    step.is_regular = interval.label.empty();
    out.steps.push_back(std::move(step));
  }
  out.source = found.source;
  return out;
}

}  // namespace tbprof
