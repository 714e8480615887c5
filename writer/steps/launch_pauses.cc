// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "writer/base/median.h"
#include "writer/steps/clamp_time.h"
#include "writer/steps/step_detector.h"

namespace tbprof {
namespace {

// At first, distances between launches above 1/kPart of the longest distance are pauses. Each further try divides the
// limit by kPart.
constexpr int64_t kPart = 4;
constexpr size_t kMostPauses = 64;
constexpr int kMostTries = 4;  // each try costs as much as the first pass over all launches
// Share of the remaining time that the newly added pauses must take. With less, the steps would have been found without
// removing them.
constexpr double kLeastInPauses = 0.25;
// A pause has at least the length of this many steps.
constexpr double kStepsOfAPause = 10;
constexpr size_t kFewestSteps = 8;
// Shares of the time without pauses that regular steps must cover: at all, and for the full confidence.
constexpr double kLeastCovered = 0.35, kMostlyCovered = 0.7;
constexpr double kSamePeriod = 0.1;
// A training has few pauses; a benchmark or a server pauses between all of its loops.
constexpr size_t kFewPauses = 3;
constexpr size_t kStepsBetweenPauses = 50;
// The program may have spent most of its time in the removed pauses, and it is unknown whether that was its start.
constexpr double kMostWithPauses = 0.9;
// Loops that compare kernels also pause, and have neither an optimizer nor a graph.
constexpr double kMostOfUnknownKind = 0.65;
// If one of this many steps at either end spans a pause, the steps beyond it belong to the program's start or end.
constexpr size_t kNearTheEnd = 3;

// Launches with the time of the pauses removed.
class WithoutPauses {
 public:
  // Shortens each distance above `longest_ps` between the starts of two launches to `kept_ps`.
  WithoutPauses(std::span<const StepLaunch> launches, int64_t longest_ps, int64_t kept_ps) {
    launches_.assign(launches.begin(), launches.end());
    int64_t before = ClampTime(launches.front().start_ps), removed = 0;
    for (size_t i = 0; i < launches_.size(); ++i) {
      StepLaunch& launch = launches_[i];
      const int64_t start = std::max(before, ClampTime(launch.start_ps));
      if (i > 0 && start - before > longest_ps) {
        removed += start - before - kept_ps;
        pauses_.push_back({start - removed, removed});
        launches_[i - 1].end_ps = std::min(launches_[i - 1].end_ps, start - removed);
      }
      before = start;
      launch.end_ps = ClampTime(launch.end_ps) - removed;
      launch.start_ps = start - removed;
    }
  }

  std::span<const StepLaunch> launches() const { return launches_; }
  int64_t length_ps() const { return launches_.back().start_ps - launches_.front().start_ps; }
  // Number of pauses that are over at `time_ps`, a time without pauses.
  size_t PausesBefore(int64_t time_ps) const {
    const auto behind =
        std::ranges::upper_bound(pauses_, time_ps, {}, [](const Pause& pause) { return pause.over_ps; });
    return static_cast<size_t>(behind - pauses_.begin());
  }
  int64_t TimeOf(int64_t time_ps) const {
    const size_t pauses = PausesBefore(time_ps);
    return time_ps + (pauses == 0 ? 0 : pauses_[pauses - 1].removed_ps);
  }

 private:
  struct Pause {
    int64_t over_ps;     // end of the pause, in time without pauses
    int64_t removed_ps;  // by this pause and all earlier ones
  };
  std::vector<StepLaunch> launches_;
  std::vector<Pause> pauses_;
};

std::vector<int64_t> FromOneToTheNext(std::span<const StepLaunch> launches) {
  std::vector<int64_t> distances;
  distances.reserve(launches.size());
  int64_t before = ClampTime(launches.front().start_ps);
  for (const StepLaunch& launch : launches.subspan(1)) {
    const int64_t start = std::max(before, ClampTime(launch.start_ps));
    distances.push_back(start - before);
    before = start;
  }
  return distances;
}

bool IsOverAPause(const WithoutPauses& without, const DetectedStep& step) {
  return without.PausesBefore(step.start_ps) != without.PausesBefore(step.end_ps);
}

// Removes the steps at either end that belong to the start or the end of the program.
void TrimEnds(const WithoutPauses& without, std::vector<DetectedStep>* steps) {
  const size_t near = std::min(kNearTheEnd, steps->size());
  for (size_t i = near; i > 0; --i) {
    if (!IsOverAPause(without, (*steps)[steps->size() - i])) continue;
    steps->resize(steps->size() - i);
    break;
  }
  for (size_t i = std::min(near, steps->size()); i > 0; --i) {
    if (!IsOverAPause(without, (*steps)[i - 1])) continue;
    steps->erase(steps->begin(), steps->begin() + static_cast<ptrdiff_t>(i));
    break;
  }
}

// Converts the times of steps back to times with pauses. A step that spans a pause is irregular.
void PutPausesBack(const WithoutPauses& without, std::vector<DetectedStep>* steps) {
  for (DetectedStep& step : *steps) {
    if (IsOverAPause(without, step)) {
      step.kind = DetectedStep::Kind::kIrregular;
      step.cause = DetectedStep::Cause::kPause;
    }
    step.start_ps = without.TimeOf(step.start_ps);
    step.end_ps = without.TimeOf(step.end_ps);
  }
}

// Confidence of steps that were found without pauses; 0: they are rejected.
double ConfidenceOf(const WithoutPauses& without, const StepDetection& found) {
  size_t regular = 0, pauses = 0;
  int64_t in_steps = 0;
  for (const DetectedStep& step : found.steps) {
    if (IsOverAPause(without, step)) {
      pauses += without.PausesBefore(step.end_ps) - without.PausesBefore(step.start_ps);
    } else if (step.kind == DetectedStep::Kind::kRegular) {
      ++regular;
      in_steps += step.end_ps - step.start_ps;
    }
  }
  const double covered = static_cast<double>(in_steps) / static_cast<double>(std::max<int64_t>(without.length_ps(), 1));
  if (regular < kFewestSteps || covered < kLeastCovered) return 0;
  if (pauses > 1 && pauses * kStepsBetweenPauses > regular) return 0;
  if (pauses > kFewPauses && !found.cut_known) return 0;
  const bool unsure = pauses > kFewPauses || !found.cut_known;
  const double most = unsure ? kMostOfUnknownKind : kMostWithPauses;
  return std::min(found.confidence, most) * std::min(1.0, covered / kMostlyCovered);
}

}  // namespace

StepDetection DetectStepsBetweenPauses(std::span<const StepLaunch> launches) {
  StepDetection whole = DetectLongSteps(launches);
  if (!whole.steps.empty() || launches.size() < kFewestLaunches) return whole;
  const std::vector<int64_t> distances = FromOneToTheNext(launches);
  const int64_t usual = std::max<int64_t>(Median(distances), 1);
  std::vector<int64_t> longest = distances;
  const auto most = longest.begin() + static_cast<ptrdiff_t>(std::min(kMostPauses, longest.size()));
  std::ranges::partial_sort(longest, most, std::greater<>());
  longest.erase(most, longest.end());
  double left = 0, in_pauses = 0;
  for (const int64_t distance : distances) left += static_cast<double>(distance);
  auto next = longest.begin();
  int tries = 0;
  for (int64_t shortest = longest[0] / kPart; shortest > usual && tries < kMostTries; shortest /= kPart) {
    for (; next != longest.end() && *next > shortest; ++next) in_pauses += static_cast<double>(*next);
    if (next == longest.end()) break;
    if (in_pauses < kLeastInPauses * left) continue;
    left -= in_pauses;
    in_pauses = 0;
    ++tries;
    const StepDetection guess = DetectLongSteps(WithoutPauses(launches, shortest, usual).launches());
    if (guess.steps.empty()) continue;
    // Detects again with the limit that fits this period: shorter distances count as time again, longer ones are
    // removed.
    const double pause = kStepsOfAPause * static_cast<double>(guess.period_ps);
    if (pause >= static_cast<double>(longest[0])) continue;
    const WithoutPauses without(launches, static_cast<int64_t>(pause), usual);
    StepDetection found = DetectLongSteps(without.launches());
    const double ratio = static_cast<double>(found.period_ps) / static_cast<double>(guess.period_ps);
    if (found.steps.empty() || std::abs(ratio - 1) > kSamePeriod) continue;
    TrimEnds(without, &found.steps);
    found.confidence = ConfidenceOf(without, found);
    if (found.confidence < kLeastConfidence) continue;
    PutPausesBack(without, &found.steps);
    return found;
  }
  return whole;
}

}  // namespace tbprof
