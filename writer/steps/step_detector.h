// SPDX-License-Identifier: Apache-2.0
//
// Detects the steps of a program that does not mark them, from the launches or calls of one of its threads.
//
//   std::vector<StepLaunch> launches;    // of one thread, in order
//   const StepDetection found = DetectSteps(launches);
//   if (!found.steps.empty()) ...        // found.period_ps, found.confidence
//
// In a loop of n iterations, a launch that happens once per iteration occurs n times, one period apart. The detector
// counts runs of one, two and four symbols. Runs with the same count and a regular distance form a class, and a class
// is a step if its members take turns. If two classes could be the step (micro-batches, or a loop that ends with an
// optimizer without a known name), the result names the other one as `alternative` and has a lower confidence: below
// kSureConfidence if the launches do not show which one is the step.
//
// For a loop that launches nothing, DetectStepsInActivity() takes activity signals in bins of equal length.
//
// Process: converter, one thread. The input is untrusted: times may be equal, run backwards or be absurd. Time: linear,
// except for the sorting of candidates. Memory beside the result: at most kMaxTypes kinds of runs of each length and
// kMaxHistograms histograms, 200 MB in all, and 150 bytes for each step that is considered. If there are more kinds,
// the detector stops counting runs of four, then of two; further single symbols are ignored.
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
    kExecutable = 4,  // launches a whole graph or executable
    kAfterLoss = 8,   // records were lost between the previous launch and this one
    kBackward = 16,   // of a backward pass; if any launch has it, one optimizer burst counts per backward pass
  };
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  // Hash of the parts that are the same in each iteration: API and name. The grid varies with the batch.
  uint64_t symbol = 0;
  uint8_t flags = 0;
};

struct DetectedStep {
  // Statistics cover regular steps only.
  enum class Kind : uint8_t { kRegular, kWarmUp, kIrregular };
  // The likely cause of an irregular step; a guess.
  enum class Cause : uint8_t { kNone, kPause, kCopies, kMoreWork, kLoss };
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  Kind kind = Kind::kRegular;
  Cause cause = Cause::kNone;
};

struct StepDetection {
  std::vector<DetectedStep> steps;  // in order, without overlaps; empty: no steps were found
  int64_t period_ps = 0;            // median length of the regular steps
  double confidence = 0;            // how likely these are the steps; 0..1
  std::string source;               // how the steps were found, as text for the user
  uint32_t accumulation = 0;        // number of equal parts of a step that look like steps themselves; 0: none
  // Another period that may be the true one, as a multiple (> 1) or a fraction (< 1) of the period; 0: none.
  double alternative = 0;
  bool cut_known = false;  // an optimizer, an executable or a batch marks where a step begins, not a gap or a wait
  bool capped = false;     // too many kinds of runs; some were ignored
};

// Steps with a higher confidence are expected to be correct.
inline constexpr double kSureConfidence = 0.7;
// Steps with a lower confidence are not returned.
inline constexpr double kLeastConfidence = 0.3;
inline bool Holds(const StepDetection& found) { return !found.steps.empty() && found.confidence >= kLeastConfidence; }
// A step that accumulates gradients has at most this many parts. If there are more, the parts are steps, and the loop
// around them is an epoch.
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

// Searches the name for words that optimizer kernels have in their names. A hint only: the same kernels clip gradients.
bool NameLooksLikeOptimizer(std::string_view name);

StepDetection DetectSteps(std::span<const StepLaunch> launches);
// As DetectSteps, but returns nothing for fewer than kFewestLaunches launches or a period below kShortestStepPs, which
// is a loop within a step, or a benchmark.
StepDetection DetectLongSteps(std::span<const StepLaunch> launches);
// As DetectLongSteps. If that finds nothing, and a few pauses (a long start, a long end, an evaluation elsewhere) take
// much of the time, searches the launches again without the pauses. That takes several times as long, and memory for a
// copy of the launches.
StepDetection DetectStepsBetweenPauses(std::span<const StepLaunch> launches);

struct StepActivity {
  int64_t start_ps = 0;
  int64_t bin_ps = 0;
  // All of the same length: one value for each bin.
  std::vector<std::vector<float>> signals;
  // Index of the signal that is highest where a step begins (waiting for input). -1: a step begins where the first
  // signal is lowest (live bytes).
  int phase_signal = -1;
};

StepDetection DetectStepsInActivity(const StepActivity& activity);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_DETECTOR_H_
