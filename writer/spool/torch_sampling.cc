// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/torch_sampling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"

namespace tbprof {

TorchTotals::TorchTotals(std::vector<TorchSamplingAt> facts) : facts_(std::move(facts)) {
  std::ranges::stable_sort(facts_, {}, &TorchSamplingAt::ticks);
  intervals_.emplace_back();
  for (const TorchSamplingAt& at : facts_) {
    const bool begins = at.fact.weight != 0;
    intervals_.push_back({.from = at.ticks,
                          .weight = begins ? at.fact.weight : intervals_.back().weight,
                          .midway = begins && (at.fact.flags & kTorchMidway) != 0});
  }
  // The class of a unit is known at its end.
  uint8_t number = kClasses - 1;
  for (size_t i = facts_.size(); i-- > 0;) {
    const uint32_t flags = facts_[i].fact.flags;
    if ((flags & kTorchUnitEnds) != 0) number = static_cast<uint8_t>(flags >> kTorchClassShift & kTorchClassMask);
    intervals_[i].number = number;
  }
}

const TorchTotals::Interval& TorchTotals::IntervalAt(uint64_t ticks) {
  // The operations of a thread come nearly in order.
  constexpr size_t kSteps = 8;
  if (intervals_[at_].from > ticks || (at_ + kSteps < intervals_.size() && intervals_[at_ + kSteps].from <= ticks)) {
    const auto above = std::ranges::upper_bound(intervals_, ticks, {}, &Interval::from);
    at_ = static_cast<size_t>(above - intervals_.begin()) - 1;
  }
  while (at_ + 1 < intervals_.size() && intervals_[at_ + 1].from <= ticks) ++at_;
  return intervals_[at_];
}

void TorchTotals::Take(const RecordedOperation& operation) {
  const Interval& interval = IntervalAt(operation.start);
  const double weight = interval.weight;
  Class& of_type = types_[operation.type][interval.number];
  Calls& calls = calls_[interval.number];
  Sums& sums = interval.weight == 1 ? of_type.certain : of_type.weighted;
  sums.calls += weight;
  sums.ticks += weight * static_cast<double>(operation.ticks);
  sums.self_ticks += weight * static_cast<double>(operation.self_ticks);
  ++recorded_;
  if (interval.weight == 1) {
    ++calls.certain;
  } else {
    ++calls.chosen;
    calls.weighted += weight;
  }
}

void TorchTotals::Finish(uint64_t open, uint64_t close) {
  constexpr double kMostSkipped = 1e15;
  double all_skipped = 0;
  for (size_t i = 0; i < facts_.size(); ++i) {
    // A fact counts what was skipped before it.
    const uint64_t from = i == 0 ? 0 : facts_[i - 1].ticks, to = facts_[i].ticks;
    if (to <= open || from >= close || facts_[i].fact.skipped == 0) continue;
    const double whole = static_cast<double>(std::max<uint64_t>(to - from, 1));
    const double inside = static_cast<double>(std::min(to, close) - std::max(from, open));
    const double skipped =
        std::min(kMostSkipped, static_cast<double>(facts_[i].fact.skipped) * std::min(1.0, inside / whole));
    calls_[intervals_[i].number].skipped += skipped;
    all_skipped += skipped;
  }
  skipped_ = static_cast<uint64_t>(std::min(kMostSkipped, all_skipped));
  // Skipped operations of classes without recorded ones are distributed over all that were chosen by chance; if there
  // are none, over all.
  double rest = 0, chosen = 0, certain = 0;
  for (Calls& calls : calls_) {
    if (calls.weighted > 0) {
      calls.of_weighted = (calls.chosen + calls.skipped) / calls.weighted;
      chosen += calls.chosen + calls.skipped;
    } else if (calls.certain > 0 && calls.skipped > 0) {
      calls.of_certain = (calls.certain + calls.skipped) / calls.certain;
    } else {
      rest += calls.skipped;
    }
    certain += calls.certain * calls.of_certain;
  }
  for (Calls& calls : calls_) {
    if (chosen > 0) {
      calls.of_weighted *= (chosen + rest) / chosen;
    } else if (certain > 0) {
      calls.of_certain *= (certain + rest) / certain;
    }
  }
}

EstimatedTotal TorchTotals::Of(uint16_t type) const {
  const auto found = types_.find(type);
  if (found == types_.end()) return {};
  Sums all;
  for (size_t i = 0; i < kClasses; ++i) {
    const Class& sums = found->second[i];
    const Calls& calls = calls_[i];
    all.calls += sums.certain.calls * calls.of_certain + sums.weighted.calls * calls.of_weighted;
    all.ticks += sums.certain.ticks * calls.of_certain + sums.weighted.ticks * calls.of_weighted;
    all.self_ticks += sums.certain.self_ticks * calls.of_certain + sums.weighted.self_ticks * calls.of_weighted;
  }
  return {static_cast<uint64_t>(std::llround(all.calls)), all.ticks, all.self_ticks};
}

std::vector<TorchTotals::Weight> TorchTotals::Weights() const {
  std::vector<Weight> weights;
  for (const Interval& interval : intervals_) {
    const Calls& calls = calls_[interval.number];
    const double weight = interval.weight == 1 ? calls.of_certain : interval.weight * calls.of_weighted;
    if (weights.empty() || interval.midway || weight != weights.back().weight) {
      weights.push_back({interval.from, weight, interval.midway});
    }
  }
  return weights;
}

std::string SharePercent(double share) {
  const double percent = 100 * share;
  return absl::StrFormat("%.*f %%", percent > 99 || percent < 1 ? 1 : 0, percent);
}

}  // namespace tbprof
