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
#include "writer/steps/torch_ranges.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace torch_steps {
namespace {

constexpr double kClear = 0.95, kByOrder = 0.9, kWithLoss = 0.8, kAmbiguous = 0.7, kGuess = 0.6;
constexpr size_t kFewestSure = 3;
// If this share of the batches that an optimizer follows has a backward pass, each training batch must have one.
constexpr double kWitnessed = 0.95;
constexpr double kUsual = 0.8;
// Share of the usual work of a training batch: less work does not count.
constexpr double kLeastWork = 0.05;
constexpr size_t kMostParts = 8;
// Share of the operations of two intervals that they must have in common.
constexpr double kAlike = 0.8;
constexpr size_t kFewestRepeats = 4;
// If more equal optimizers than this follow one batch, they are not parts of one step.
constexpr size_t kMostAlike = 2;
constexpr double kShortestGap = 0.02;
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

struct Found {
  std::vector<Interval> intervals;
  double confidence = 0;
  std::string_view source;
  std::vector<StepLoop> loops;
};

StepLoop Parts(std::string_view what, size_t steps, size_t parts) {
  return {std::string(what), steps * parts, 1 / static_cast<double>(parts), false};
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
    std::vector<int64_t> works(batches.size()), of_training;
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
      const bool worked = std::any_of(batches.begin(), batches.end(),
                                      [&](size_t batch) { return contents_[batch] != Content::kNothing; });
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
};

// Steps by optimizers alone: the work between them shows which of them make one step.
class ByOptimizers {
 public:
  ByOptimizers(const Timeline& timeline, const ThreadRanges& ranges, const std::vector<int64_t>& backwards,
               const std::vector<Interval>& pauses)
      : timeline_(timeline), ranges_(ranges), backwards_(backwards), pauses_(pauses) {
    cut_ = timeline.shortest_shown_ps > 0 || !timeline.drops.empty();
    MakeBursts();
    FindPeriod();
  }

  size_t period() const { return period_; }

  Found Steps() const {
    Found found;
    found.source = "Optimizer.step";
    const size_t phase = Phase();
    size_t with_batches = 0;
    for (size_t i = phase; i + period_ < bursts_.size(); i += period_) {
      const Burst& before = bursts_[i];
      const Burst& last = bursts_[i + period_];
      if (!before.whole || !last.whole) continue;
      const auto batch = std::partition_point(ranges_.batches.begin(), ranges_.batches.end(),
                                              [&](const Range& range) { return range.start < before.end; });
      const bool has_batches = batch != ranges_.batches.end() && batch->start < last.end;
      if (has_batches) ++with_batches;
      found.intervals.push_back({before.end, last.end, has_batches ? kWithEvaluation : ""});
    }
    // If most steps have batches, these are no sign of an evaluation.
    if (2 * with_batches > found.intervals.size()) {
      for (Interval& interval : found.intervals) interval.label = "";
    }
    found.confidence = confidence_;
    if (period_ > 1) {
      found.loops.push_back(Parts("optimizer calls", found.intervals.size(), period_));
      found.loops.back().may_be_step = period_ > 2 && MostAreAlike();
    }
    return found;
  }

 private:
  // Optimizers that follow each other directly.
  struct Burst {
    int64_t start = 0, end = 0;
    bool whole = true;
    bool known = true;                                   // false: operations were left out
    std::vector<uint16_t> optimizers;                    // types
    std::vector<std::pair<uint16_t, uint32_t>> content;  // number of each operation since the previous burst
  };

  // The first work that begins at `time` or later.
  std::vector<Range>::const_iterator FirstWork(int64_t time) const {
    return std::partition_point(ranges_.work.begin(), ranges_.work.end(),
                                [&](const Range& range) { return range.start < time; });
  }

  bool IsApart(const Range& before, const Range& next, int64_t mean) const {
    const int64_t gap = next.start - before.end;
    if (cut_ || OverlapAny(pauses_, before.end, next.end)) {
      return static_cast<double>(gap) > kShortestGap * static_cast<double>(mean);
    }
    if (!backwards_.empty()) return AnyIn(backwards_, before.end, next.end);
    if (!ranges_.work.empty()) {
      const auto work = FirstWork(before.end);
      return work != ranges_.work.end() && work->start < next.start;
    }
    return static_cast<double>(gap) > kShortestGap * static_cast<double>(mean);
  }

  void MakeBursts() {
    const std::vector<Range>& optimizers = ranges_.optimizers;
    const int64_t mean = (optimizers.back().end - optimizers.front().start) / static_cast<int64_t>(optimizers.size());
    for (size_t i = 0; i < optimizers.size(); ++i) {
      if (i == 0 || IsApart(optimizers[i - 1], optimizers[i], mean)) bursts_.emplace_back().start = optimizers[i].start;
      Burst& burst = bursts_.back();
      burst.end = optimizers[i].end;
      burst.whole = burst.whole && optimizers[i].whole;
      burst.optimizers.push_back(optimizers[i].type);
    }
    size_t at = 0;
    int64_t since = 0;
    for (Burst& burst : bursts_) {
      burst.known = !OverlapAny(pauses_, since, burst.end);
      since = burst.end;
      std::map<uint16_t, uint32_t> counts;
      for (; at < ranges_.work.size() && ranges_.work[at].start < burst.end; ++at) ++counts[ranges_.work[at].type];
      burst.content.assign(counts.begin(), counts.end());
    }
  }

  // 1: the same operations; 0: none in common, or other optimizers. `kinds`: ignores how many of each there are.
  static double Likeness(const Burst& a, const Burst& b, bool kinds) {
    if (a.optimizers != b.optimizers) return 0;
    uint64_t common = 0, all = 0;
    auto i = a.content.begin();
    auto j = b.content.begin();
    while (i != a.content.end() || j != b.content.end()) {
      const bool left = j == b.content.end() || (i != a.content.end() && i->first <= j->first);
      const bool right = i == a.content.end() || (j != b.content.end() && j->first <= i->first);
      const uint64_t in_a = left ? (kinds ? 1 : i->second) : 0, in_b = right ? (kinds ? 1 : j->second) : 0;
      common += std::min(in_a, in_b);
      all += std::max(in_a, in_b);
      if (left) ++i;
      if (right) ++j;
    }
    return all == 0 ? 1 : static_cast<double>(common) / static_cast<double>(all);
  }

  bool Repeats(size_t period, bool kinds) const {
    // Starts at 1: the operations before the first burst may be incomplete.
    size_t alike = 0, pairs = 0;
    for (size_t i = 1; i + period < bursts_.size(); ++i) {
      if (!bursts_[i].known || !bursts_[i + period].known) continue;
      ++pairs;
      if (Likeness(bursts_[i], bursts_[i + period], kinds) >= kAlike) ++alike;
    }
    // Of few parts, some are alike by chance.
    const size_t fewest = period > 1 ? (kFewestRepeats - 1) * period - 1 : 1;
    return pairs >= fewest && static_cast<double>(alike) >= kUsual * static_cast<double>(pairs);
  }

  // Returns whether most parts are like the one before: then each may be a step, and a period a turn of a loop around
  // them.
  bool MostAreAlike() const {
    size_t alike = 0, pairs = 0;
    for (size_t i = 1; i + 1 < bursts_.size(); ++i) {
      if (!bursts_[i].known || !bursts_[i + 1].known) continue;
      ++pairs;
      if (Likeness(bursts_[i], bursts_[i + 1], /*kinds=*/false) >= kAlike) ++alike;
    }
    return pairs > 0 && alike * period_ >= pairs * (period_ - 2);
  }

  // Returns whether every Nth part is longer or shorter than the others, for parts that have the same operations.
  bool LengthsAlternate() const {
    for (size_t period = 2; period <= kMostParts && bursts_.size() > kFewestRepeats * period; ++period) {
      std::vector<std::vector<double>> lengths(period);
      std::vector<double> all;
      for (size_t i = 1; i < bursts_.size(); ++i) {
        all.push_back(static_cast<double>(bursts_[i].end - bursts_[i - 1].end));
        lengths[i % period].push_back(all.back());
      }
      const double middle = Median(all);
      double spread = 0, left = 0;
      for (const std::vector<double>& part : lengths) {
        const double own = Median(part);
        for (const double length : part) {
          spread += std::abs(length - middle);
          left += std::abs(length - own);
        }
      }
      if (spread > 0.1 * middle * static_cast<double>(all.size()) && left < 0.3 * spread) return true;
    }
    return false;
  }

  void FindPeriod() {
    const bool known = !ranges_.work.empty();
    bool found = false;
    for (const bool kinds : {false, true}) {
      for (size_t period = 1; period <= kMostParts && !found; ++period) {
        if (period > 1 && bursts_.size() < kFewestRepeats * period) break;
        if (!Repeats(period, kinds)) continue;
        period_ = period;
        found = true;
        confidence_ = kinds || !known ? kAmbiguous : kByOrder;
      }
      if (found) break;
    }
    if (!found) confidence_ = kGuess;
    const bool by_names = [&] {
      for (size_t i = 1; i + 1 < bursts_.size(); ++i) {
        if (bursts_[i].optimizers != bursts_[i + 1].optimizers) return true;
      }
      return false;
    }();
    if (period_ > 1) confidence_ = std::min(confidence_, by_names ? kByOrder : kWithLoss);
    if (period_ > 2 && MostAreAlike()) confidence_ = std::min(confidence_, kAmbiguous);
    if (cut_) confidence_ = std::min(confidence_, kWithLoss);
    if (period_ == 1 && LengthsAlternate()) confidence_ = std::min(confidence_, kAmbiguous);
  }

  // Returns which part is the last of a step: the one with by far the longest idle time behind it, if there is one;
  // otherwise the recording is assumed to begin with the first part of a step.
  size_t Phase() const {
    if (period_ == 1) return 0;
    std::vector<std::vector<int64_t>> idle(period_);
    for (size_t i = 0; i + 1 < bursts_.size(); ++i) {
      const auto work = FirstWork(bursts_[i].end);
      const int64_t next =
          work == ranges_.work.end() ? bursts_[i + 1].start : std::min(work->start, bursts_[i + 1].start);
      idle[i % period_].push_back(std::max<int64_t>(next - bursts_[i].end, 0));
    }
    std::vector<std::pair<int64_t, size_t>> by_length;
    for (size_t i = 0; i < period_; ++i) by_length.emplace_back(Median(idle[i]), i);
    std::sort(by_length.rbegin(), by_length.rend());
    return by_length[0].first > 2 * by_length[1].first ? by_length[0].second : period_ - 1;
  }

  const Timeline& timeline_;
  const ThreadRanges& ranges_;
  const std::vector<int64_t>& backwards_;
  const std::vector<Interval>& pauses_;
  bool cut_ = false;
  std::vector<Burst> bursts_;
  size_t period_ = 1;
  double confidence_ = 0;
};

Found FindSteps(const Timeline& timeline, const ThreadRanges& ranges, const std::vector<int64_t>& backwards) {
  const std::vector<Interval> pauses = Pauses(timeline, timeline.threads[ranges.thread].process);
  std::optional<ByOptimizers> by_optimizers;
  if (ranges.optimizers.size() >= 2) by_optimizers.emplace(timeline, ranges, backwards, pauses);
  Found found;
  if (!ranges.batches.empty()) {
    const ByBatches by_batches(timeline, ranges, backwards, pauses);
    found = by_batches.Steps();
    const size_t optimizers = by_batches.Optimizers();
    // If optimizers cannot be distinguished, each may be a step: a batch in several parts, or an occasional evaluation.
    if (optimizers > 1 && by_optimizers.has_value() && by_optimizers->period() == 1) {
      if (optimizers > kMostAlike) {
        found = by_optimizers->Steps();
        found.loops.push_back({"batches", ranges.batches.size(), static_cast<double>(optimizers), true});
      }
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
    if (best.has_value() && rank(here, ranges) <= rank(of_process, *best)) continue;
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
