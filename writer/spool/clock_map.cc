// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/clock_map.h"

#include <algorithm>
#include <cmath>

namespace tbprof {
namespace {
constexpr double kBreakNs = 1e6;
constexpr double kMaxPs = 9.0e18;
// Counters tick 1e6 to 1e10 times a second; a damaged pair makes any other rate.
constexpr double kFastestNs = 1e-3, kSlowestNs = 1e6;
}  // namespace

void ClockMap::Add(const ClockFact& pair) {
  if (!pairs_.empty() && (pair.ticks <= pairs_.back().ticks || pair.monotonic_ns <= pairs_.back().monotonic_ns)) return;
  pairs_.push_back(pair);
}

bool ClockMap::Finish() {
  if (pairs_.empty()) return false;
  const ClockFact& first = pairs_.front();
  const ClockFact& last = pairs_.back();
  if (pairs_.size() > 1) {
    const double whole_ns = static_cast<double>(last.monotonic_ns - first.monotonic_ns);
    slope_ = std::clamp(whole_ns / static_cast<double>(last.ticks - first.ticks), kFastestNs, kSlowestNs);
  }
  for (size_t i = 1; i < pairs_.size(); ++i) {
    const double real = static_cast<double>(pairs_[i].monotonic_ns - pairs_[i - 1].monotonic_ns);
    const double expected = static_cast<double>(pairs_[i].ticks - pairs_[i - 1].ticks) * slope_;
    if (std::abs(real - expected) > kBreakNs) ++breaks_;
  }
  return true;
}

// Returns the last pair at or before `ticks`; if there is none, the first pair.
size_t ClockMap::PairBefore(uint64_t ticks) const {
  if (last_ + 1 < pairs_.size() && ticks >= pairs_[last_].ticks && ticks < pairs_[last_ + 1].ticks) return last_;
  const auto above = std::upper_bound(pairs_.begin(), pairs_.end(), ticks,
                                      [](uint64_t value, const ClockFact& pair) { return value < pair.ticks; });
  last_ = above == pairs_.begin() ? 0 : static_cast<size_t>(above - pairs_.begin()) - 1;
  return last_;
}

// Relative to the first pair: a double keeps nanoseconds over 100 days.
double ClockMap::MonotonicNs(uint64_t ticks) const {
  const ClockFact& first = pairs_.front();
  if (ticks <= first.ticks) return -static_cast<double>(first.ticks - ticks) * slope_;
  if (pairs_.size() < 2) return static_cast<double>(ticks - first.ticks) * slope_;
  const size_t at = PairBefore(ticks);
  const ClockFact& from = pairs_[at];
  double slope = slope_;
  if (at + 1 < pairs_.size()) {
    const ClockFact& to = pairs_[at + 1];
    slope = static_cast<double>(to.monotonic_ns - from.monotonic_ns) / static_cast<double>(to.ticks - from.ticks);
  }
  return static_cast<double>(from.monotonic_ns - first.monotonic_ns) + static_cast<double>(ticks - from.ticks) * slope;
}

int64_t ClockMap::ToPs(uint64_t ticks) const {
  const double ps = (MonotonicNs(ticks) - origin_ns_) * 1000.0;
  return static_cast<int64_t>(std::clamp(ps, -kMaxPs, kMaxPs));
}

int64_t ClockMap::DurationPs(uint64_t ticks) const {
  return static_cast<int64_t>(std::min(static_cast<double>(ticks) * slope_ * 1000.0, kMaxPs));
}

uint64_t ClockMap::Ticks(double ns) const { return static_cast<uint64_t>(std::clamp(ns / slope_, 0.0, 9e18)); }

uint64_t ClockMap::UnixNs(uint64_t ticks) const {
  const ClockFact& from = pairs_[PairBefore(ticks)];
  const double ns = MonotonicNs(ticks) - static_cast<double>(from.monotonic_ns - pairs_.front().monotonic_ns);
  return from.realtime_ns + static_cast<uint64_t>(static_cast<int64_t>(std::clamp(ns, -kMaxPs, kMaxPs)));
}

}  // namespace tbprof
