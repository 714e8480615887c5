// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/gpu_clock.h"

#include <algorithm>
#include <cmath>

namespace tbprof {
namespace {

constexpr size_t kMaxPairs = 1u << 18;
constexpr double kBreakNs = 1e6;
constexpr double kDrift = 500e-6;  // the highest rate at which NTP slews a clock
constexpr double kRateBaselineNs = 5e5;
constexpr double kRateNs = 5e3;
constexpr double kOtherRate = 0.01, kMostRate = 100;
// A reading that a preemption prolonged is ignored if neighbours are short.
constexpr size_t kNeighbours = 4;
constexpr size_t kMaxSegments = 256;
constexpr uint64_t kWideFactor = 8;
constexpr double kNarrowNs = 5e3;

double SignedDifference(uint64_t a, uint64_t b) {
  return a >= b ? static_cast<double>(a - b) : -static_cast<double>(b - a);
}

uint64_t Shifted(uint64_t ticks, double by) {
  if (by >= 0) {
    const double room = static_cast<double>(UINT64_MAX - ticks);
    return by >= room ? UINT64_MAX : ticks + static_cast<uint64_t>(std::llround(std::min(by, 9e18)));
  }
  return -by >= static_cast<double>(ticks) ? 0 : ticks - static_cast<uint64_t>(std::llround(std::min(-by, 9e18)));
}

}  // namespace

void GpuClockMap::Add(const GpuClockRecord& pair) {
  if (pair.ticks_after < pair.ticks_before || pair.gpu_ns == 0) return;
  const uint64_t width = pair.ticks_after - pair.ticks_before;
  // In a very long run every second pair is enough.
  if (pairs_.size() == kMaxPairs) {
    for (size_t i = 0; i < kMaxPairs / 2; ++i) pairs_[i] = pairs_[2 * i];
    pairs_.resize(kMaxPairs / 2);
  }
  pairs_.push_back({pair.ticks_before + width / 2, pair.gpu_ns, width, false});
}

bool GpuClockMap::Finish(double ns_per_tick) {
  ns_per_tick_ = ns_per_tick > 0 ? ns_per_tick : 1;
  std::stable_sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) { return a.ticks < b.ticks; });
  pairs_.erase(
      std::unique(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) { return a.ticks == b.ticks; }),
      pairs_.end());
  if (pairs_.empty()) return false;
  LeaveOutWide();
  FindBreaks();
  for (const Pair& pair : pairs_) error_ticks_ = std::max(error_ticks_, pair.width / 2);
  return true;
}

void GpuClockMap::LeaveOutWide() {
  std::vector<Pair> kept;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const size_t from = i < kNeighbours ? 0 : i - kNeighbours;
    const size_t to = std::min(pairs_.size(), i + kNeighbours + 1);
    uint64_t best = UINT64_MAX;
    for (size_t j = from; j < to; ++j) best = std::min(best, pairs_[j].width);
    const bool wide =
        static_cast<double>(pairs_[i].width) * ns_per_tick_ > kNarrowNs && pairs_[i].width / kWideFactor > best;
    if (!wide) kept.push_back(pairs_[i]);
  }
  pairs_ = std::move(kept);
}

double GpuClockMap::Residual(size_t from, size_t to, double rate) const {
  const double expected = static_cast<double>(pairs_[to].ticks - pairs_[from].ticks) * ns_per_tick_;
  return SignedDifference(pairs_[to].gpu_ns, pairs_[from].gpu_ns) - expected * rate;
}

double GpuClockMap::Tolerance(size_t from, size_t to, double rate) const {
  const double expected = static_cast<double>(pairs_[to].ticks - pairs_[from].ticks) * ns_per_tick_;
  // Each reading was taken at an unknown time within its bracket.
  const double bracket =
      (static_cast<double>(pairs_[to].width) + static_cast<double>(pairs_[from].width)) / 2 * ns_per_tick_;
  return (kDrift * expected + bracket) * std::max(rate, 1.0);
}

double GpuClockMap::RateFrom(size_t first) const {
  size_t last = first;
  while (last + 1 < pairs_.size() &&
         static_cast<double>(pairs_[last].ticks - pairs_[first].ticks) * ns_per_tick_ < kRateBaselineNs) {
    ++last;
  }
  const double expected = static_cast<double>(pairs_[last].ticks - pairs_[first].ticks) * ns_per_tick_;
  if (expected < kRateBaselineNs || pairs_[last].gpu_ns <= pairs_[first].gpu_ns) return 1;
  const double rate = SignedDifference(pairs_[last].gpu_ns, pairs_[first].gpu_ns) / expected;
  // A step of the system's clock looks like another rate, until the pairs behind it and between refute that.
  if (std::abs(rate - 1) < kOtherRate || rate < 1 / kMostRate || rate > kMostRate) return 1;
  for (size_t i = first + 1; i < std::min(last + 2, pairs_.size()); ++i) {
    if (std::abs(Residual(first, i, rate)) > Tolerance(first, i, rate) + kRateNs * rate) return 1;
  }
  return last + 1 < pairs_.size() || last > first + 1 ? rate : 1;
}

void GpuClockMap::FindBreaks() {
  double rate = RateFrom(0);
  segments_.push_back({0, 0, rate});
  for (size_t i = 1; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[i];
    pair.after_break =
        std::abs(Residual(i - 1, i, rate)) > Tolerance(i - 1, i, rate) + kBreakNs * std::max(rate, 1.0) ||
        pair.gpu_ns <= pairs_[i - 1].gpu_ns;
    if (pair.after_break) {
      const double before = rate;
      rate = RateFrom(i);
      ++(rate == before || std::abs(rate / before - 1) < kOtherRate ? breaks_ : replaced_);
      segments_.push_back({i, i, rate});
    }
    segments_.back().last = i;
  }
}

size_t GpuClockMap::PassPair(const GpuClockRecord& pair) const {
  const uint64_t ticks = pair.ticks_before + (pair.ticks_after - pair.ticks_before) / 2;
  return static_cast<size_t>(std::upper_bound(pairs_.begin(), pairs_.end(), ticks,
                                              [](uint64_t value, const Pair& other) { return value < other.ticks; }) -
                             pairs_.begin());
}

uint64_t GpuClockMap::Around(const Pair& pair, uint64_t gpu_ns, double ns_per_tick) const {
  return Shifted(pair.ticks, SignedDifference(gpu_ns, pair.gpu_ns) / ns_per_tick);
}

uint64_t GpuClockMap::InSegment(const Segment& segment, uint64_t gpu_ns) const {
  const double ns_per_tick = ns_per_tick_ * segment.rate;
  if (gpu_ns <= pairs_[segment.first].gpu_ns) return Around(pairs_[segment.first], gpu_ns, ns_per_tick);
  if (gpu_ns >= pairs_[segment.last].gpu_ns) return Around(pairs_[segment.last], gpu_ns, ns_per_tick);
  size_t at = last_;
  if (!(at >= segment.first && at < segment.last && gpu_ns >= pairs_[at].gpu_ns && gpu_ns < pairs_[at + 1].gpu_ns)) {
    const auto begin = pairs_.begin() + static_cast<ptrdiff_t>(segment.first);
    const auto above = std::upper_bound(begin, pairs_.begin() + static_cast<ptrdiff_t>(segment.last), gpu_ns,
                                        [](uint64_t value, const Pair& pair) { return value < pair.gpu_ns; });
    at = static_cast<size_t>(above - pairs_.begin()) - 1;
    last_ = at;
  }
  const Pair &from = pairs_[at], &to = pairs_[at + 1];
  return Around(from, gpu_ns,
                static_cast<double>(to.gpu_ns - from.gpu_ns) / static_cast<double>(to.ticks - from.ticks));
}

GpuTicks GpuClockMap::ToTicks(uint64_t gpu_ns, size_t hint) const {
  if (segments_.empty()) return {};
  if (segments_.size() == 1) return {InSegment(segments_[0], gpu_ns), false};
  // The clock jumps all the time: only the position of the record in the spool gives its time.
  if (segments_.size() > kMaxSegments) {
    const size_t at = std::min(hint, pairs_.size() - 1);
    return {pairs_[at].ticks, true};
  }
  // Searches the latest segment that contains the time and had begun when the record was made, which is before the next
  // pair.
  const Segment* before = nullptr;
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    if (segment->first > hint) continue;
    if (gpu_ns >= pairs_[segment->first].gpu_ns && gpu_ns <= pairs_[segment->last].gpu_ns) {
      return {InSegment(*segment, gpu_ns), false};
    }
  }
  // No segment contains it: it is before the first pair, behind the last, or where the clock jumped.
  double best = INFINITY;
  uint64_t ticks = 0;
  bool uncertain = true;
  for (const Segment& segment : segments_) {
    if (segment.first > hint && before != nullptr) break;
    before = &segment;
    const Pair &first = pairs_[segment.first], &last = pairs_[segment.last];
    const bool is_first = segment.first == 0, is_last = segment.last + 1 == pairs_.size();
    const auto consider = [&](const Pair& pair, bool open_end) {
      const uint64_t at = Around(pair, gpu_ns, ns_per_tick_ * segment.rate);
      // The result must be between this segment and its neighbours.
      uint64_t nearest = at;
      if (!is_first) nearest = std::max(nearest, pairs_[segment.first - 1].ticks);
      if (!is_last) nearest = std::min(nearest, pairs_[segment.last + 1].ticks);
      const double distance = std::abs(SignedDifference(gpu_ns, pair.gpu_ns)) +
                              1e3 * std::abs(SignedDifference(at, nearest)) * ns_per_tick_;
      if (distance >= best) return;
      best = distance;
      ticks = nearest;
      uncertain = !open_end;
    };
    if (gpu_ns < first.gpu_ns) {
      consider(first, is_first);
    } else {
      consider(last, is_last);
    }
  }
  return {ticks, uncertain};
}

}  // namespace tbprof
