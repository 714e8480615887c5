// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/memory_trend.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <span>

#include "writer/base/median.h"

namespace tbprof {
namespace {

constexpr size_t kMostFloors = 40;
// Pairs of floors that rise less pairs that fall, as a share of all: noise alone exceeds it once in 10000 times.
constexpr double kLeastConcordance = 0.7;
// The rise as a multiple of its noise: a normal distribution's median deviation is 0.67 of its standard deviation.
constexpr double kLeastDeviations = 6;
// Memory of a cache that is full does not rise at the end: the slope of the second half, and the rise of the last
// eighth, as shares of what the whole slope gives.
constexpr double kLeastLateShare = 0.25, kLeastLastShare = 0.1;
constexpr size_t kFewestLast = 3;
// A rise that begins late needs more: there are several parts in which it might be found.
constexpr double kLateConcordance = 0.85;
constexpr int64_t kLateBytes = 5;  // times
// The slope of a part that does not rise, as a share of the slope of the part behind it.
constexpr double kFlat = 0.1;
// With so few jumps that have this share of the rise, memory does not grow with the steps. An even rise has at most
// kFewJumps / (kLeastFloors - 1) in them.
constexpr size_t kFewJumps = 3;
constexpr double kMostInJumps = 0.8;
static_assert(kFewJumps < kMostInJumps * (kLeastFloors - 1));

// The median slope of all pairs of floors.
double SlopeOf(std::span<const int64_t> floors) {
  std::vector<double> slopes;
  for (size_t i = 0; i < floors.size(); ++i) {
    for (size_t j = i + 1; j < floors.size(); ++j) {
      slopes.push_back((static_cast<double>(floors[j]) - static_cast<double>(floors[i])) / static_cast<double>(j - i));
    }
  }
  return Median(std::move(slopes));
}

double ConcordanceOf(std::span<const int64_t> floors) {
  int64_t rises = 0, pairs = 0;
  for (size_t i = 0; i < floors.size(); ++i) {
    for (size_t j = i + 1; j < floors.size(); ++j, ++pairs) {
      rises += floors[j] > floors[i] ? 1 : floors[j] < floors[i] ? -1 : 0;
    }
  }
  return static_cast<double>(rises) / static_cast<double>(pairs);
}

// Whether a few jumps make most of the rise: a program that builds one thing after another does not leak.
bool IsStaircase(std::span<const int64_t> floors) {
  std::vector<int64_t> jumps;
  for (size_t i = 1; i < floors.size(); ++i) jumps.push_back(std::max<int64_t>(floors[i] - floors[i - 1], 0));
  std::ranges::sort(jumps, std::greater());
  double largest = 0;
  for (size_t i = 0; i < std::min(kFewJumps, jumps.size()); ++i) largest += static_cast<double>(jumps[i]);
  return largest >= kMostInJumps * static_cast<double>(floors.back() - floors.front());
}

// The median distance of the floors from a line of that slope.
double NoiseOf(std::span<const int64_t> floors, double slope) {
  std::vector<double> rests;
  for (size_t i = 0; i < floors.size(); ++i) {
    rests.push_back(static_cast<double>(floors[i]) - slope * static_cast<double>(i));
  }
  const double middle = Median(rests);
  for (double& rest : rests) rest = std::abs(rest - middle);
  return Median(std::move(rests));
}

bool RisesToTheEnd(std::span<const int64_t> floors, double slope) {
  if (SlopeOf(floors.subspan(floors.size() / 2)) < kLeastLateShare * slope) return false;
  const size_t last = std::max(floors.size() / 8, kFewestLast);
  const auto rise = static_cast<double>(floors.back() - floors[floors.size() - 1 - last]);
  return rise >= kLeastLastShare * slope * static_cast<double>(last);
}

bool RisesSteadily(std::span<const int64_t> floors, int64_t least_bytes, double least_concordance) {
  const double slope = SlopeOf(floors);
  const double rise = slope * static_cast<double>(floors.size() - 1);
  if (rise < static_cast<double>(least_bytes) || ConcordanceOf(floors) < least_concordance) return false;
  if (rise < kLeastDeviations * NoiseOf(floors, slope) || IsStaircase(floors)) return false;
  return RisesToTheEnd(floors, slope);
}

}  // namespace

std::vector<MemoryLevel> FloorsOfSteps(const std::vector<MemoryLevel>& levels, const std::vector<int64_t>& ends) {
  std::vector<MemoryLevel> floors;
  if (ends.size() < 2) return floors;
  const size_t each = (ends.size() - 2) / kMostFloors + 1;
  auto level = std::ranges::upper_bound(levels, ends[0], {}, &MemoryLevel::time_ps);
  // The last steps that do not fill an interval are left out.
  for (size_t end = each; end < ends.size(); end += each) {
    int64_t lowest = INT64_MAX;
    for (; level != levels.end() && level->time_ps <= ends[end]; ++level) lowest = std::min(lowest, level->bytes);
    if (lowest == INT64_MAX && level != levels.begin()) lowest = std::prev(level)->bytes;
    if (lowest != INT64_MAX) floors.push_back({ends[end - each], lowest});
  }
  return floors;
}

MemoryTrend TrendOf(std::span<const int64_t> floors, int64_t least_bytes) {
  MemoryTrend trend;
  trend.known = floors.size() >= kLeastFloors;
  if (!trend.known) return trend;
  trend.rises = RisesSteadily(floors, least_bytes, kLeastConcordance);
  for (const size_t parts : {2, 4}) {
    const size_t part = floors.size() / parts;
    if (trend.rises || part < kLeastFloors) break;
    trend.from = floors.size() - part;
    trend.rises = RisesSteadily(floors.subspan(trend.from), kLateBytes * least_bytes, kLateConcordance);
  }
  if (!trend.rises) trend.from = 0;
  // The rate is that of the part that rises.
  while (trend.rises) {
    const std::span<const int64_t> risen = floors.subspan(trend.from);
    const size_t half = risen.size() / 2;
    if (half < kLeastFloors || SlopeOf(risen.first(half)) >= kFlat * SlopeOf(risen.subspan(half))) break;
    trend.from += half;
  }
  return trend;
}

}  // namespace tbprof
