// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_activity.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "writer/base/median.h"
#include "writer/base/saturating.h"
#include "writer/base/stable_hash.h"
#include "writer/steps/clock_waits.h"

namespace tbprof {
namespace {

constexpr size_t kFewestEvents = 24;
constexpr size_t kFewestBins = 512;
constexpr size_t kMostBins = size_t{1} << 17;
constexpr int64_t kShortestBinPs = 50'000'000;
// A boundary is as exact as a bin. Narrower bins are mostly empty and do not resemble each other.
constexpr double kBinsOfStep = 5;
constexpr size_t kFewestSteps = 8;
// Number of bin widths that must show the same rhythm, besides most of those that show any: otherwise the rhythm may
// come from the bins.
constexpr size_t kFewestWidths = 2;
constexpr double kSamePeriod = 0.05;

bool IsActivity(const EventType& type, const Event& event) {
  switch (type.family) {
    case EventFamily::kLock:
    case EventFamily::kIo:
    case EventFamily::kMemory:
    case EventFamily::kProcess:
      return !WaitsForAClock(type, event);
    case EventFamily::kAnnotation:
      return true;
    default:
      return false;
  }
}

// Gaps shorter than this share of the usual gap are within a burst. With a larger share, the gaps between random calls
// would look regular.
constexpr double kBurst = 0.12;
// Share of the time in gaps of about the usual length. Random calls have 0.37.
constexpr double kLeastInUsualGaps = 0.6;
constexpr size_t kFewestOfAKind = 12;
constexpr double kMostlyClock = 0.3;
// Share of one kind's intervals in which another kind must occur once to belong to the same step.
constexpr double kOfTheSame = 0.75;
// Share of the time of all calls that a kind must span. The start and the end of a program are often longer than its
// loop.
constexpr double kLeastOfTheTime = 0.2;
constexpr size_t kMostKinds = 32;
// Factor for a single kind: it may belong to any code, and of a few random kinds one looks regular.
constexpr double kAlone = 0.7;
// A gap longer than this many usual gaps is not part of the loop.
constexpr double kPause = 5;
constexpr double kOtherRhythm = 0.65;
// Of 1800 programs with random calls, one had steps with a confidence of 0.32, and none had more.
constexpr double kLeastFromBursts = 0.35;

// A call that is not a wait for a clock and not nested in another call.
struct Call {
  int64_t start_ps;
  int64_t end_ps;
  uint64_t symbol;
};
using Calls = std::vector<Call>;

// Returns the calls of each thread that does not mostly wait for a clock: a monitor's rhythm is not the program's.
std::vector<Calls> CallsOfThreads(const Timeline& timeline, uint32_t process) {
  std::vector<Calls> all;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process || thread.is_line) continue;
    Calls calls;
    int64_t free_from = 0, clock_ps = 0;
    // A range around much of a thread's work does not show the rhythm of the work.
    const int64_t longest_range = (thread.end_ps - thread.start_ps) / 20;
    for (const Event& event : thread.events) {
      const EventType& type = timeline.types[event.type];
      if (WaitsForAClock(type, event)) AddSaturating(&clock_ps, event.duration_ps);
      if (event.start_ps < free_from || !IsActivity(type, event)) continue;
      if (type.family == EventFamily::kAnnotation && event.duration_ps > longest_range) continue;
      free_from = event.start_ps + event.duration_ps;
      // Sizes with the same bit width are of the same kind.
      const bool sized = type.value == ValueKind::kBytes && event.value > 0;
      const auto size = sized ? std::bit_width(static_cast<uint64_t>(event.value)) : 0;
      calls.push_back({event.start_ps, free_from, StableHash(event.type, event.call_site, size)});
    }
    if (calls.empty()) continue;
    const int64_t there_ps = calls.back().end_ps - calls.front().start_ps;
    if (static_cast<double>(clock_ps) < kMostlyClock * static_cast<double>(there_ps)) all.push_back(std::move(calls));
  }
  return all;
}

// One kind of call, of all threads; calls that are close together are one burst.
struct Kind {
  std::vector<std::pair<int64_t, int64_t>> bursts;  // start, end
  double usual_ps = 0;                              // half of the time is in longer gaps
  double share = 0;                                 // share of the time that is in gaps of about that length
  size_t followers = 0;                             // kinds that take turns with it

  int64_t Span() const { return bursts.back().first - bursts.front().first; }
  bool IsUsual(size_t i) const {  // from burst i to the next
    const double gap = static_cast<double>(bursts[i + 1].first - bursts[i].first);
    return gap >= 0.6 * usual_ps && gap <= 1.6 * usual_ps;
  }
};

bool IsNoChance(const Kind& kind) {
  const double few = 1 / std::sqrt(static_cast<double>(kind.bursts.size()));
  return kind.share >= (kind.followers > 0 ? 0.4 + 1.2 * few : 0.45 + 2 * few);
}

void MeasureGaps(Kind* kind) {
  std::vector<double> gaps;
  double all = 0, passed = 0, about = 0;
  for (size_t i = 1; i < kind->bursts.size(); ++i) {
    gaps.push_back(static_cast<double>(kind->bursts[i].first - kind->bursts[i - 1].first));
    all += gaps.back();
  }
  std::ranges::sort(gaps);
  for (double gap : gaps) {
    passed += gap;
    kind->usual_ps = gap;
    if (passed > all / 2) break;
  }
  // Leaves out the longest gaps: a few checkpoints, and the time between a program's start and its loop, do not
  // describe the loop.
  for (size_t left = std::max<size_t>(2, gaps.size() / 50); left > 0 && !gaps.empty(); --left) {
    if (gaps.back() <= kPause * kind->usual_ps) break;
    all -= gaps.back();
    gaps.pop_back();
  }
  for (double gap : gaps) {
    if (gap >= 0.7 * kind->usual_ps && gap <= 1.4 * kind->usual_ps) about += gap;
  }
  kind->share = all > 0 ? about / all : 0;
}

std::vector<Kind> RegularKinds(const std::vector<Calls>& threads) {
  std::map<uint64_t, Kind> by_symbol;
  for (const Calls& calls : threads) {
    for (const Call& call : calls) by_symbol[call.symbol].bursts.emplace_back(call.start_ps, call.end_ps);
  }
  std::vector<Kind> regular;
  for (auto& [symbol, kind] : by_symbol) {
    std::ranges::sort(kind.bursts);
    MeasureGaps(&kind);
    const double within = kBurst * kind.usual_ps;
    Kind burst;
    int64_t last = 0;
    for (const auto& [start, end] : kind.bursts) {
      if (burst.bursts.empty() || static_cast<double>(start - last) >= within) {
        burst.bursts.emplace_back(start, end);
      } else {
        burst.bursts.back().second = std::max(burst.bursts.back().second, end);
      }
      last = start;
    }
    if (burst.bursts.size() < kFewestOfAKind) continue;
    MeasureGaps(&burst);
    if (burst.share >= kLeastInUsualGaps) regular.push_back(std::move(burst));
  }
  return regular;
}

// Returns the share of the intervals of `one` in which `other` occurs once.
double TakesTurns(const Kind& one, const Kind& other) {
  size_t once = 0, at = 0;
  for (size_t i = 0; i + 1 < one.bursts.size(); ++i) {
    size_t here = 0;
    while (at < other.bursts.size() && other.bursts[at].first < one.bursts[i].first) ++at;
    for (; at < other.bursts.size() && other.bursts[at].first < one.bursts[i + 1].first; ++at) ++here;
    once += here == 1;
  }
  return static_cast<double>(once) / static_cast<double>(one.bursts.size() - 1);
}

// Returns the time range in which most calls happen: the start and the end of a program have a rhythm of their own.
std::pair<int64_t, int64_t> Steady(const std::vector<Calls>& threads) {
  std::vector<int64_t> starts;
  for (const Calls& calls : threads) {
    for (const Call& call : calls) starts.push_back(call.start_ps);
  }
  std::ranges::sort(starts);
  constexpr size_t kParts = 64;
  const int64_t first = starts.front(), part = (starts.back() - first) / static_cast<int64_t>(kParts) + 1;
  std::array<size_t, kParts> counts{};
  for (int64_t start : starts) ++counts[static_cast<size_t>((start - first) / part)];
  std::array<size_t, kParts> sorted = counts;
  std::ranges::sort(sorted);
  // Parts at either end whose number of calls is unusual are not part of a loop.
  const size_t usual = sorted[kParts / 2];
  const auto unlike = [&](size_t count) { return count > 3 * usual + 8 || count * 3 + 8 < usual; };
  size_t from = 0, to = kParts;
  while (from < kParts / 2 && unlike(counts[from])) ++from;
  while (to > kParts / 2 + 1 && unlike(counts[to - 1])) --to;
  return {first + static_cast<int64_t>(from) * part, first + static_cast<int64_t>(to) * part};
}

// Counts the calls of all threads that begin in each bin. Their durations are not used: long waits in which nothing
// happens would hide the rhythm.
StepActivity InBins(const std::vector<Calls>& threads, std::pair<int64_t, int64_t> steady, size_t bins) {
  StepActivity activity;
  activity.start_ps = steady.first;
  activity.bin_ps = (steady.second - steady.first) / static_cast<int64_t>(bins);
  activity.phase_signal = 0;
  std::vector<float>& all = activity.signals.emplace_back(bins);
  for (const Calls& calls : threads) {
    size_t bin = 0;
    float in_bin = 0;
    // Logarithm of the number: a burst of a thousand calls is one burst.
    const auto finish = [&] { all[bin] += std::log2(1 + std::exchange(in_bin, 0.0F)); };
    for (const Call& call : calls) {
      if (call.start_ps < steady.first || call.start_ps >= steady.second) continue;
      const auto at = static_cast<size_t>((call.start_ps - activity.start_ps) / activity.bin_ps);
      if (std::min(at, bins - 1) != bin) finish();
      bin = std::min(at, bins - 1);
      ++in_bin;
    }
    finish();
  }
  return activity;
}

}  // namespace

StepDetection DetectStepsInBursts(const Timeline& timeline, uint32_t process) {
  const std::vector<Calls> threads = CallsOfThreads(timeline, process);
  std::vector<Kind> kinds = RegularKinds(threads);
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (const Calls& calls : threads) {
    first = std::min(first, calls.front().start_ps);
    last = std::max(last, calls.back().start_ps);
  }
  std::erase_if(kinds, [&](const Kind& kind) {
    return static_cast<double>(kind.Span()) < kLeastOfTheTime * static_cast<double>(last - first);
  });
  if (kinds.empty()) return {};
  std::ranges::stable_sort(kinds, [](const Kind& a, const Kind& b) { return a.share > b.share; });
  if (kinds.size() > kMostKinds) kinds.resize(kMostKinds);
  for (Kind& kind : kinds) {
    for (const Kind& other : kinds) kind.followers += &other != &kind && TakesTurns(kind, other) >= kOfTheSame;
  }
  std::erase_if(kinds, [](const Kind& kind) { return !IsNoChance(kind); });
  if (kinds.empty()) return {};
  const Kind& best = *std::ranges::max_element(kinds, [](const Kind& a, const Kind& b) {
    return a.followers != b.followers ? a.followers < b.followers : a.share < b.share;
  });

  StepDetection found;
  std::vector<int64_t> usual;
  for (size_t i = 0; i + 1 < best.bursts.size(); ++i) {
    DetectedStep step;
    step.start_ps = best.bursts[i].first;
    step.end_ps = best.bursts[i + 1].first;
    if (best.IsUsual(i)) {
      usual.push_back(step.end_ps - step.start_ps);
    } else {
      const bool is_long = static_cast<double>(step.end_ps - step.start_ps) > best.usual_ps;
      step.kind = usual.empty() ? DetectedStep::Kind::kWarmUp : DetectedStep::Kind::kIrregular;
      step.cause = is_long ? DetectedStep::Cause::kPause : DetectedStep::Cause::kNone;
    }
    found.steps.push_back(step);
  }
  if (usual.size() < kFewestSteps) return {};
  found.period_ps = Median(usual);
  const double regular = static_cast<double>(usual.size()) / static_cast<double>(found.steps.size());
  found.confidence = kMostFromBursts * regular * (1 - std::exp(-static_cast<double>(usual.size()) / 6));
  if (best.followers == 0) found.confidence *= kAlone;
  // A kind with another rhythm is a part of a step, or consists of several steps.
  for (const Kind& other : kinds) {
    const double ratio = other.usual_ps / best.usual_ps;
    if (other.followers == 0 || (ratio > 0.7 && ratio < 1.4)) continue;
    found.confidence *= kOtherRhythm;
    found.alternative = ratio;
    break;
  }
  found.source = "calls of all threads";
  if (found.confidence < kLeastFromBursts) return {};
  return found;
}

StepDetection DetectStepsOfThreads(const Timeline& timeline, uint32_t process) {
  std::vector<Calls> threads = CallsOfThreads(timeline, process);
  std::erase_if(threads, [](const Calls& calls) { return calls.size() < kFewestEvents; });
  if (threads.empty()) return {};
  const std::pair<int64_t, int64_t> steady = Steady(threads);
  std::vector<StepDetection> all;
  for (size_t half_octaves = 0;; ++half_octaves) {
    const size_t octave = kFewestBins << half_octaves / 2;
    const size_t bins = half_octaves % 2 == 0 ? octave : octave + octave * 53 / 128;
    if (bins > kMostBins) break;
    const int64_t bin_ps = (steady.second - steady.first) / static_cast<int64_t>(bins);
    if (bin_ps < kShortestBinPs) break;
    StepDetection found = DetectStepsInActivity(InBins(threads, steady, bins));
    if (found.steps.size() < kFewestSteps) continue;
    if (static_cast<double>(found.period_ps) < kBinsOfStep * static_cast<double>(bin_ps)) continue;
    all.push_back(std::move(found));
  }
  const auto agree = [](const StepDetection& a, const StepDetection& b) {
    return std::abs(static_cast<double>(a.period_ps) / static_cast<double>(b.period_ps) - 1) < kSamePeriod;
  };
  StepDetection* best = nullptr;
  size_t most = 0;
  for (StepDetection& one : all) {
    const auto same =
        static_cast<size_t>(std::ranges::count_if(all, [&](const auto& other) { return agree(one, other); }));
    // Of equal ones, the last has the narrowest bins.
    if (same >= most) best = &one;
    most = std::max(most, same);
  }
  if (best == nullptr || most < kFewestWidths || most * 2 <= all.size()) return {};
  best->confidence = std::min(best->confidence, kMostFromActivity);
  if (best->confidence < kLeastConfidence) return {};
  best->source = "rhythm of all threads' calls";
  return std::move(*best);
}

}  // namespace tbprof
