// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/torch_optimizers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "writer/base/median.h"

namespace tbprof::torch_steps {
namespace {

constexpr size_t kMostParts = 8;
// Share of the operations of two intervals that they must have in common.
constexpr double kAlike = 0.8;
constexpr size_t kFewestRepeats = 4;
// Share of the mean distance of optimizers; and of distances, the longest, that the mean leaves out: a program may
// collect or evaluate for long between series of steps.
constexpr double kShortestGap = 0.02, kLongest = 0.1;
// A period counts if its parts are alike by chance with at most this probability.
constexpr double kLeastChance = 0.005;

// The probability of at least `least` of `trials` independent events, each of probability `chance`.
double LeastBinomial(size_t least, size_t trials, double chance) {
  if (chance <= 0) return least == 0 ? 1 : 0;
  if (chance >= 1) return 1;
  const auto n = static_cast<double>(trials);
  double sum = 0;
  for (size_t i = least; i <= trials; ++i) {
    const auto k = static_cast<double>(i);
    const double ways = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
    sum += std::exp(ways + k * std::log(chance) + (n - k) * std::log1p(-chance));
  }
  return std::min(sum, 1.0);
}

// The mean distance of ranges, without the longest ones.
int64_t UsualDistance(const std::vector<Range>& ranges) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < ranges.size(); ++i) distances.push_back(ranges[i].end - ranges[i - 1].end);
  std::ranges::sort(distances);
  distances.resize(distances.size() - static_cast<size_t>(kLongest * static_cast<double>(distances.size())));
  double sum = 0;
  for (const int64_t distance : distances) sum += static_cast<double>(distance);
  return static_cast<int64_t>(sum / static_cast<double>(std::max<size_t>(distances.size(), 1)));
}

}  // namespace

StepLoop Parts(std::string_view what, size_t steps, size_t parts) {
  return {std::string(what), steps * parts, 1 / static_cast<double>(parts), false};
}

ByOptimizers::ByOptimizers(const Timeline& timeline, const ThreadRanges& ranges, const std::vector<int64_t>& backwards,
                           const std::vector<Interval>& pauses)
    : ranges_(ranges), backwards_(backwards), pauses_(pauses) {
  cut_ = timeline.shortest_shown_ps > 0 || !timeline.drops.empty();
  MakeBursts();
  FindPeriod();
}

Found ByOptimizers::Steps(bool names_evaluations) const {
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
    found.intervals.push_back({before.end, last.end, has_batches && names_evaluations ? kWithEvaluation : ""});
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

// The first work that begins at `time` or later.
std::vector<Range>::const_iterator ByOptimizers::FirstWork(int64_t time) const {
  return std::partition_point(ranges_.work.begin(), ranges_.work.end(),
                              [&](const Range& range) { return range.start < time; });
}

// Where operations are missing, the gap alone shows whether there was work in it: by the gaps that are known to have
// work, and those without. `shortest`: of the former, if none is known.
double ByOptimizers::ShortestGap(double shortest) const {
  const std::vector<Range>& optimizers = ranges_.optimizers;
  std::vector<int64_t> with_work, without;
  for (size_t i = 1; i < optimizers.size() && !cut_; ++i) {
    const Range &before = optimizers[i - 1], &next = optimizers[i];
    if (OverlapAny(pauses_, before.end, next.end)) continue;
    (IsApart(before, next, shortest) ? with_work : without).push_back(next.start - before.end);
  }
  if (with_work.empty()) return shortest;
  std::ranges::sort(with_work);
  std::ranges::sort(without);
  // A few may be odd.
  const auto least = static_cast<double>(with_work[with_work.size() / 20]);
  if (least <= 0) return shortest;
  if (without.empty()) return std::min(shortest, least / 2);
  const auto most = static_cast<double>(without[without.size() - 1 - without.size() / 20]);
  const bool fits = most >= least || (shortest > most && shortest < least);
  return fits ? shortest : std::sqrt(std::max(most, 1.0) * least);
}

bool ByOptimizers::IsApart(const Range& before, const Range& next, double shortest) const {
  const int64_t gap = next.start - before.end;
  if (cut_ || OverlapAny(pauses_, before.end, next.end)) return static_cast<double>(gap) > shortest;
  if (!backwards_.empty()) return AnyIn(backwards_, before.end, next.end);
  if (!ranges_.work.empty()) {
    const auto work = FirstWork(before.end);
    return work != ranges_.work.end() && work->start < next.start;
  }
  return static_cast<double>(gap) > shortest;
}

void ByOptimizers::MakeBursts() {
  const std::vector<Range>& optimizers = ranges_.optimizers;
  const double shortest = ShortestGap(kShortestGap * static_cast<double>(UsualDistance(optimizers)));
  for (size_t i = 0; i < optimizers.size(); ++i) {
    if (i == 0 || IsApart(optimizers[i - 1], optimizers[i], shortest))
      bursts_.emplace_back().start = optimizers[i].start;
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
double ByOptimizers::Likeness(const Burst& a, const Burst& b, bool kinds) {
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

// Parts at this distance of which both are known, and how many of these pairs are alike.
ByOptimizers::Pairs ByOptimizers::PairsAt(size_t distance, bool kinds) const {
  Pairs found;
  // Starts at 1: the operations before the first burst may be incomplete.
  for (size_t i = 1; i + distance < bursts_.size(); ++i) {
    if (!bursts_[i].known || !bursts_[i + distance].known) continue;
    ++found.pairs;
    if (Likeness(bursts_[i], bursts_[i + distance], kinds) >= kAlike) ++found.alike;
  }
  return found;
}

bool ByOptimizers::Repeats(size_t period, bool kinds) const {
  const Pairs at = PairsAt(period, kinds);
  // Of few parts, some are alike by chance.
  const size_t fewest = period > 1 ? (kFewestRepeats - 1) * period - 1 : 1;
  if (at.pairs < fewest || static_cast<double>(at.alike) < kUsual * static_cast<double>(at.pairs)) return false;
  if (period == 1) return true;
  // An evaluation in every tenth step makes few parts unlike their neighbours: among the parts that were recorded,
  // those at some other distance are then alike by chance.
  const Pairs next = PairsAt(1, kinds);
  const double chance = next.pairs == 0 ? 0 : static_cast<double>(next.alike) / static_cast<double>(next.pairs);
  return LeastBinomial(at.alike, at.pairs, chance) <= kLeastChance;
}

// Returns whether most parts are like the one before: then each may be a step, and a period a turn of a loop around
// them.
bool ByOptimizers::MostAreAlike() const {
  const Pairs next = PairsAt(1, /*kinds=*/false);
  return next.pairs > 0 && next.alike * period_ >= next.pairs * (period_ - 2);
}

// Returns whether every Nth part is longer or shorter than the others, for parts that have the same operations.
bool ByOptimizers::LengthsAlternate() const {
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

void ByOptimizers::FindPeriod() {
  const bool known = !ranges_.work.empty();
  bool found = false;
  const Pairs next = PairsAt(1, /*kinds=*/false);
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
  const bool are_alike = next.pairs > 0 && 2 * next.alike >= next.pairs;
  if (!found) confidence_ = are_alike ? kAmbiguous : kGuess;
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
size_t ByOptimizers::Phase() const {
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

}  // namespace tbprof::torch_steps
