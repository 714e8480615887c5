// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/length_change.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "writer/base/median.h"

namespace tbprof {
namespace {

// The first steps compile, allocate and fill caches.
constexpr size_t kWarmUpSteps = 5;
constexpr size_t kFewestOfSide = 20, kFewestBlocksOfSide = 4;  // of each side
constexpr double kLeastShareOfTime = 0.05;                     // of the time, each side
constexpr int64_t kLeastPs = 200'000'000'000;
constexpr int64_t kLeastOfSlowPs = 500'000'000'000;  // the samples of that side show what takes the time
// Steps that get faster: a long warm-up is no change of the program.
constexpr double kLeastShareOfSlow = 0.2;
constexpr double kLeastRatio = 1.25;
constexpr size_t kStepsOfBlock = 5, kMostBlocks = 60;
constexpr size_t kBlocksBeside = 5;
// How clear a change must be. Noise seldom has large ones, so these may be less clear.
struct Clearness {
  double most_strays;       // share of a side's blocks that are nearer to the other side's level
  double least_deviations;  // the change as a multiple of the blocks' median distance from their level
  double least_sharpness;   // share of the change that lies between the blocks next to the cut: a slow wave has less
  double most_wave;  // distance of the level of a third of a side from that of the side, as a share of the change
};
constexpr Clearness kOfSmall = {0.08, 6, 0.7, 0.25}, kOfLarge = {0.12, 4, 0.5, 0.35};
constexpr double kLargeRatio = 1.8;
// If each block behind the cut is longer than each before it, they may vary more.
constexpr double kDeviationsOfSeparate = 3, kWaveOfSeparate = 0.5;
// Pairs of blocks that rise less those that fall, as a share of all: independent noise
// exceeds it less than once in 10000 times.
constexpr double kLeastConcordance = 0.75;
constexpr double kLeastDriftRatio = 1.4;
constexpr double kLeastDriftDeviations = 4;
// Share of the drift that lies between the middles of two neighbouring quarters of the run.
constexpr double kLeastOfQuarter = 0.1;
constexpr size_t kQuarters = 4;
// The slope of the second half of a drift to shorter steps, as a share of the whole slope.
constexpr double kLeastLateShare = 0.25;
// Pairs of a step of each side in which that of the slower side is longer, as a share of all: heavy tails have half.
constexpr double kLeastOrdered = 0.78;
// A step this many times as long as the median of its side, or as short, is a pause or an evaluation.
constexpr int64_t kFar = 3;

struct Range {
  size_t from, to;  // `to` is not in it
};

double MedianOf(std::span<const double> values) { return Median(std::vector<double>(values.begin(), values.end())); }

// Of the middle half: neither every fourth step, if it is long, nor pauses count, and steps of two lengths in turn have
// the mean of both.
double MiddleMean(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t out = values.size() / 4;
  double sum = 0;
  for (size_t i = out; i < values.size() - out; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * out);
}

double Distance(std::span<const double> values, double level) {
  double sum = 0;
  for (const double value : values) sum += std::abs(value - level);
  return sum;
}

double OrderedShare(std::vector<int64_t> shorter, const std::vector<int64_t>& longer) {
  std::ranges::sort(shorter);
  double below = 0;
  for (const int64_t length : longer) {
    const auto [first, last] = std::equal_range(shorter.begin(), shorter.end(), length);
    below += static_cast<double>(first - shorter.begin()) + static_cast<double>(last - first) / 2;
  }
  return below / (static_cast<double>(shorter.size()) * static_cast<double>(longer.size()));
}

class Finder {
 public:
  Finder(std::span<const TimeSpan> steps, std::span<const int64_t> lengths)
      : steps_(steps), used_(steps.subspan(kWarmUpSteps)), lengths_(lengths) {
    each_ = std::max(kStepsOfBlock, (used_.size() + kMostBlocks - 1) / kMostBlocks);
    for (const int64_t length : lengths.subspan(kWarmUpSteps)) {
      logs_.push_back(std::log(static_cast<double>(std::max<int64_t>(length, 1))));
    }
    for (size_t at = 0; at + each_ <= logs_.size(); at += each_) {
      blocks_.push_back(
          MiddleMean({logs_.begin() + static_cast<ptrdiff_t>(at), logs_.begin() + static_cast<ptrdiff_t>(at + each_)}));
    }
  }

  LengthChange Find() {
    if (blocks_.size() < 3 * kFewestBlocksOfSide) return {};
    LengthChange drift = FindDrift();
    const Range whole = {0, blocks_.size()};
    const Range jump = BestJump();
    const double of_jump = CostOf(jump);
    const Range interim = BestInterim();
    // A drift that a jump describes as well is one.
    if (drift.kind != ChangeKind::kNone && drift_cost_ < of_jump) return drift;
    if (LengthChange found = Judge(jump, ChangeKind::kJump); found.kind != ChangeKind::kNone) return found;
    if (interim.to > interim.from && interim.to < whole.to) {
      if (LengthChange found = Judge(interim, ChangeKind::kInterim); found.kind != ChangeKind::kNone) return found;
    }
    return drift;
  }

 private:
  std::vector<double> Inside(const Range& range) const {
    return {blocks_.begin() + static_cast<ptrdiff_t>(range.from), blocks_.begin() + static_cast<ptrdiff_t>(range.to)};
  }
  std::vector<double> Outside(const Range& range) const {
    std::vector<double> values(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(range.from));
    values.insert(values.end(), blocks_.begin() + static_cast<ptrdiff_t>(range.to), blocks_.end());
    return values;
  }

  // The distance of the blocks from two levels, that of the range and that of the others.
  double CostOf(const Range& range) const {
    const std::vector<double> in = Inside(range), out = Outside(range);
    return Distance(in, MedianOf(in)) + Distance(out, MedianOf(out));
  }

  Range BestJump() const {
    Range best = {0, 0};
    double least = std::numeric_limits<double>::infinity();
    for (size_t cut = kFewestBlocksOfSide; cut + kFewestBlocksOfSide <= blocks_.size(); ++cut) {
      const Range range = {cut, blocks_.size()};
      const double cost = CostOf(range);
      if (cost < least) {
        least = cost;
        best = range;
      }
    }
    return best;
  }

  Range BestInterim() const {
    Range best = {0, 0};
    double least = std::numeric_limits<double>::infinity();
    for (size_t from = kFewestBlocksOfSide; from < blocks_.size(); ++from) {
      for (size_t to = from + kFewestBlocksOfSide; to + kFewestBlocksOfSide <= blocks_.size(); ++to) {
        const double cost = CostOf({from, to});
        if (cost < least) {
          least = cost;
          best = {from, to};
        }
      }
    }
    return best;
  }

  // The cut in steps: near the cut in blocks, where the steps' distance from the two levels is least.
  size_t Refine(size_t block, double left, double right) const {
    const size_t from = (block - 1) * each_, to = std::min((block + 1) * each_, logs_.size());
    double cost = 0, least = 0;
    size_t best = from;
    for (size_t i = from; i < to; ++i) {
      // Steps far from both levels decide nothing.
      const double most = std::abs(right - left);
      cost += std::clamp(std::abs(logs_[i] - left) - std::abs(logs_[i] - right), -most, most);
      if (cost < least) {
        least = cost;
        best = i + 1;
      }
    }
    return best;
  }

  bool IsSharp(size_t cut, double change, const Clearness& clear) const {
    const std::span<const double> blocks = blocks_;
    const size_t beside = std::min({kBlocksBeside, cut, blocks.size() - cut});
    // The block with the cut in it may have either level, or one in between.
    const double left = MedianOf(blocks.subspan(cut - beside, beside)), right = MedianOf(blocks.subspan(cut, beside));
    return (right - left) / change >= clear.least_sharpness;
  }

  static bool HasWaves(std::span<const double> side, double level, double most) {
    const size_t parts = side.size() >= 3 * kFewestBlocksOfSide ? 3 : 2, each = side.size() / parts;
    for (size_t part = 0; part < parts; ++part) {
      const std::span<const double> blocks = side.subspan(part * each, part + 1 < parts ? each : std::dynamic_extent);
      if (std::abs(MedianOf(blocks) - level) > most) return true;
    }
    return false;
  }

  bool IsClear(const Range& range, double outside, double inside) const {
    const bool lasts = range.to == blocks_.size();
    const std::vector<double> in = Inside(range), out = Outside(range);
    const double middle = (outside + inside) / 2, change = inside - outside;
    Clearness clear = lasts && std::abs(change) >= std::log(kLargeRatio) ? kOfLarge : kOfSmall;
    if (lasts && change > 0 && std::ranges::min(in) > std::ranges::max(out)) {
      clear.least_deviations = kDeviationsOfSeparate;
      clear.most_wave = kWaveOfSeparate;
    }
    const auto strays = [&](const std::vector<double>& values, bool high) {
      const auto count = std::ranges::count_if(values, [&](double value) { return (value > middle) != high; });
      return static_cast<double>(count) > clear.most_strays * static_cast<double>(values.size());
    };
    if (strays(in, inside > outside) || strays(out, inside < outside)) return false;
    std::vector<double> rests;
    for (const double value : in) rests.push_back(std::abs(value - inside));
    for (const double value : out) rests.push_back(std::abs(value - outside));
    if (std::abs(change) < clear.least_deviations * Median(std::move(rests))) return false;
    if (!IsSharp(range.from, change, clear)) return false;
    const double wave = clear.most_wave * std::abs(change);
    if (HasWaves(in, inside, wave) || HasWaves(out, outside, wave)) return false;
    return lasts || IsSharp(range.to, -change, clear);
  }

  LengthChange Judge(const Range& range, ChangeKind kind) const {
    if (range.to == range.from) return {};
    const double inside = MedianOf(Inside(range)), outside = MedianOf(Outside(range));
    if (std::abs(inside - outside) < std::log(kLeastRatio) || !IsClear(range, outside, inside)) return {};
    LengthChange change;
    change.kind = kind;
    change.first = kWarmUpSteps + Refine(range.from, outside, inside);
    change.end = kind == ChangeKind::kInterim ? kWarmUpSteps + Refine(range.to, inside, outside) : steps_.size();
    const auto side_of = [&](size_t step) {
      return step >= change.first && step < change.end ? StepSide::kAfter : StepSide::kBefore;
    };
    return Measured(std::move(change), side_of);
  }

  // Fills in the sides and medians. A change of no kind if it is too small.
  template <typename SideOf>
  LengthChange Measured(LengthChange change, SideOf&& side_of) const {
    std::vector<int64_t> lengths[2], compared[2];
    int64_t sums[2] = {0, 0}, all = 0;
    const auto length = [&](size_t step) { return steps_[step].end_ps - steps_[step].start_ps; };
    change.sides.assign(steps_.size(), StepSide::kNeither);
    for (size_t i = kWarmUpSteps; i < steps_.size(); ++i) {
      all += length(i);
      change.sides[i] = side_of(i);
      if (change.sides[i] == StepSide::kNeither) continue;
      lengths[change.sides[i] == StepSide::kAfter].push_back(length(i));
      compared[change.sides[i] == StepSide::kAfter].push_back(lengths_[i]);
    }
    if (lengths[0].empty() || lengths[1].empty()) return {};
    const int64_t medians[2] = {Median(lengths[0]), Median(lengths[1])};
    size_t counts[2] = {0, 0};
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (change.sides[i] == StepSide::kNeither) continue;
      const bool after = change.sides[i] == StepSide::kAfter;
      if (length(i) > kFar * medians[after] || length(i) < medians[after] / kFar) {
        change.sides[i] = StepSide::kNeither;
      } else {
        sums[after] += length(i);
        ++counts[after];
      }
    }
    change.before_ps = medians[0];
    change.after_ps = medians[1];
    const auto before = static_cast<double>(medians[0]), after = static_cast<double>(medians[1]);
    const double ratio = change.kind == ChangeKind::kDrift ? kLeastDriftRatio : kLeastRatio;
    if (after < ratio * before && before < ratio * after) return {};
    if (OrderedShare(compared[after < before], compared[after > before]) < kLeastOrdered) return {};
    for (const bool side : {false, true}) {
      const bool slow_first = !side && after < before;
      const double least = slow_first ? kLeastShareOfSlow : kLeastShareOfTime;
      const bool is_slow = side == (after > before);
      if (counts[side] < kFewestOfSide || sums[side] < (is_slow ? kLeastOfSlowPs : kLeastPs)) return {};
      // A side of many short steps may have little of the time.
      const double share =
          std::max(static_cast<double>(sums[side]) / static_cast<double>(all),
                   is_slow ? 0 : static_cast<double>(counts[side]) / static_cast<double>(used_.size()));
      if (change.kind != ChangeKind::kDrift && share < least) return {};
    }
    return change;
  }

  static double SlopeOf(std::span<const double> values) {
    std::vector<double> slopes;
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = i + 1; j < values.size(); ++j) {
        slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
      }
    }
    return Median(std::move(slopes));
  }

  static double ConcordanceOf(std::span<const double> values) {
    int64_t rises = 0, pairs = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = i + 1; j < values.size(); ++j, ++pairs) {
        rises += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
      }
    }
    return static_cast<double>(rises) / static_cast<double>(pairs);
  }

  // In lengths, not in their logarithms: a list that grows makes steps longer by the same amount each.
  LengthChange FindDrift() {
    std::vector<double> levels;
    for (const double block : blocks_) levels.push_back(std::exp(block));
    const double concordance = ConcordanceOf(levels), slope = SlopeOf(levels);
    if (std::abs(concordance) < kLeastConcordance || concordance * slope <= 0) return {};
    std::vector<double> rests;
    for (size_t i = 0; i < levels.size(); ++i) rests.push_back(levels[i] - slope * static_cast<double>(i));
    const double start = MedianOf(rests);
    drift_cost_ = 0;
    for (size_t i = 0; i < rests.size(); ++i) {
      const double expected = std::max(start + slope * static_cast<double>(i), 0.01 * levels[i]);
      drift_cost_ += std::abs(blocks_[i] - std::log(expected));
    }
    if (!IsSteady() || !ExceedsNoise()) return {};
    const double late = SlopeOf(std::span<const double>(levels).subspan(levels.size() / 2));
    if (slope < 0 && late > kLeastLateShare * slope) return {};
    return CompareEnds();
  }

  // Each quarter of the run goes on with the drift.
  bool IsSteady() const {
    std::vector<double> middles;
    for (size_t i = 0; i < kQuarters; ++i) {
      const size_t from = blocks_.size() * i / kQuarters, to = blocks_.size() * (i + 1) / kQuarters;
      middles.push_back(MedianOf(std::span<const double>(blocks_).subspan(from, to - from)));
    }
    const double drift = middles.back() - middles.front();
    for (size_t i = 1; i < kQuarters; ++i) {
      if ((middles[i] - middles[i - 1]) / drift < kLeastOfQuarter) return false;
    }
    return true;
  }

  // Noise is a factor: it is measured against an even growth of the logarithm.
  bool ExceedsNoise() const {
    const double slope = SlopeOf(blocks_);
    std::vector<double> rests;
    for (size_t i = 0; i < blocks_.size(); ++i) rests.push_back(blocks_[i] - slope * static_cast<double>(i));
    const double start = MedianOf(rests);
    for (double& rest : rests) rest = std::abs(rest - start);
    const double rise = std::abs(slope) * static_cast<double>(blocks_.size() - 1);
    return rise >= kLeastDriftDeviations * Median(std::move(rests));
  }

  // The first tenth of the steps with the last; if they are short, more of them.
  LengthChange CompareEnds() const {
    size_t each = std::max(used_.size() / 10, kFewestOfSide);
    const auto time = [&](size_t from) { return used_[from + each - 1].end_ps - used_[from].start_ps; };
    while (each < used_.size() / 3 && std::min(time(0), time(used_.size() - each)) < 2 * kLeastOfSlowPs) ++each;
    LengthChange change;
    change.kind = ChangeKind::kDrift;
    change.first = kWarmUpSteps;
    change.end = steps_.size();
    return Measured(std::move(change), [&](size_t step) {
      if (step < kWarmUpSteps + each) return StepSide::kBefore;
      return step >= steps_.size() - each ? StepSide::kAfter : StepSide::kNeither;
    });
  }

  const std::span<const TimeSpan> steps_, used_;
  const std::span<const int64_t> lengths_;
  size_t each_ = 0;
  std::vector<double> logs_, blocks_;
  double drift_cost_ = 0;
};

}  // namespace

std::vector<int64_t> LengthsOf(std::span<const TimeSpan> steps) {
  std::vector<int64_t> lengths;
  for (const TimeSpan& step : steps) lengths.push_back(step.end_ps - step.start_ps);
  return lengths;
}

LengthChange FindLengthChange(std::span<const TimeSpan> steps, std::span<const int64_t> lengths) {
  if (steps.size() < kWarmUpSteps + 2 * kFewestOfSide || lengths.size() != steps.size()) return {};
  return Finder(steps, lengths).Find();
}

}  // namespace tbprof
