// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program that says nothing about them, from what one of its threads launches or calls.
//
//   std::vector<StepLaunch> launches;    // of one thread, in order
//   const StepDetection found = DetectSteps(launches);
//   if (!found.steps.empty()) ...        // found.period_ps, found.confidence
//
// In a loop of n iterations whatever happens once in each happens n times, a period apart. So runs of one, two and four
// symbols are counted, those with the same count and a regular distance are one class, and a class is a step if its
// members take turns. Where two classes could be the step (micro-batches, and what a nameless optimizer ends), the
// other one is said as well, and the confidence is lower: below kSureConfidence where launches do not tell which.
//
// A loop that launches nothing leaves its activity: DetectStepsInActivity() takes signals in bins of equal length.
//
// Process: converter, one thread. Nothing in the input is trusted: times may be equal, run backwards or be absurd.
// Time: linear but for the sorting of candidates. Memory beside the result: at most kMaxTypes kinds of runs of each
// length and kMaxHistograms histograms, 200 MB in all, and 150 bytes for each step that is considered. Where there are
// more kinds, runs of four and then of two are given up; single symbols beyond that are not followed.
#ifndef TBPROF_WRITER_STEPS_STEP_DETECTOR_H_
#define TBPROF_WRITER_STEPS_STEP_DETECTOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

struct StepLaunch {
  enum Flag : uint8_t {
    kOptimizer = 1,   // NameLooksLikeOptimizer
    kBlocking = 2,    // waits for the device: a copy to the host, a synchronisation
    kExecutable = 4,  // of a whole graph or executable
    kAfterLoss = 8,   // records were lost between the one before and this
    kBackward = 16,   // of a backward pass; where any is, an optimizer works once behind each pass
  };
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  // A hash of what is the same each time: API and name, not the grid, which varies with the batch.
  uint64_t symbol = 0;
  uint8_t flags = 0;
};

struct DetectedStep {
  // Statistics are of regular ones alone.
  enum class Kind : uint8_t { kRegular, kWarmUp, kIrregular };
  // What an irregular one looks like; a guess.
  enum class Cause : uint8_t { kNone, kPause, kCopies, kMoreWork, kLoss };
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  Kind kind = Kind::kRegular;
  Cause cause = Cause::kNone;
};

struct StepDetection {
  std::vector<DetectedStep> steps;  // in order, not overlapping; empty: none were found
  int64_t period_ps = 0;            // median of the regular ones
  double confidence = 0;            // that these are the steps; 0..1
  std::string source;               // how they were found, for people
  uint32_t accumulation = 0;        // equal parts of a step that look like steps themselves; 0: none seen
  // Another period that may be the true one, as a multiple (> 1) or a fraction (< 1) of the period; 0: none.
  double alternative = 0;
  bool cut_known = false;  // an optimizer, an executable or a batch tells where a step begins, not a gap or a wait
  bool capped = false;     // too many kinds; not all were followed
};

// A step shown with more than this should be the right one.
inline constexpr double kSureConfidence = 0.7;
// Below this nothing is returned.
inline constexpr double kLeastConfidence = 0.3;
inline bool Holds(const StepDetection& found) { return !found.steps.empty() && found.confidence >= kLeastConfidence; }
// More parts than this are no step that accumulates: they are steps, and what holds them is an epoch.
inline constexpr int kMostPartsOfStep = 16;
inline constexpr size_t kFewestLaunches = 12;
inline constexpr int64_t kShortestStepPs = 50'000'000;
inline constexpr size_t kMaxTypes = size_t{1} << 19;
inline constexpr size_t kMaxHistograms = size_t{1} << 18;
inline constexpr size_t kMaxActivityBins = size_t{1} << 20;

// Steps shorter than `least` or longer than `most` are irregular.
struct UsualLengths {
  double median = 0, least = 0, most = 0;
};
UsualLengths UsualLengthsOf(const std::vector<double>& lengths);

// By the words that kernels of optimizers have in their names: a hint, for gradients are clipped by the same kernels.
bool NameLooksLikeOptimizer(std::string_view name);

StepDetection DetectSteps(std::span<const StepLaunch> launches);
// Nothing of fewer than kFewestLaunches, nor what comes around faster than kShortestStepPs: a loop in a step, or a
// benchmark.
StepDetection DetectLongSteps(std::span<const StepLaunch> launches);
// As DetectLongSteps; where that finds nothing and much of the time is in a few pauses, as those of a long start, of a
// long end or of an evaluation elsewhere, in the rest of the time. With such pauses it takes several times as long, and
// a copy of the launches.
StepDetection DetectStepsBetweenPauses(std::span<const StepLaunch> launches);

struct StepActivity {
  int64_t start_ps = 0;
  int64_t bin_ps = 0;
  // Each of the same length, one value for each bin.
  std::vector<std::vector<float>> signals;
  // Of the signals: what is highest where a step begins (waiting for input). -1: a step begins where the first signal
  // is lowest (live bytes).
  int phase_signal = -1;
};

StepDetection DetectStepsInActivity(const StepActivity& activity);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_DETECTOR_H_
