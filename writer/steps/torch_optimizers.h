// SPDX-License-Identifier: Apache-2.0
//
// Steps by the calls of PyTorch's optimizers alone: the work between them shows which of them make one step.
//
//   const ByOptimizers by_optimizers(timeline, ranges, backwards, pauses);   // with two optimizers or more
//   const Found found = by_optimizers.Steps();
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_STEPS_TORCH_OPTIMIZERS_H_
#define TBPROF_WRITER_STEPS_TORCH_OPTIMIZERS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/steps/torch_ranges.h"
#include "writer/timeline/timeline.h"

namespace tbprof::torch_steps {

// Confidence of steps.
inline constexpr double kClear = 0.95, kByOrder = 0.9, kWithLoss = 0.8, kAmbiguous = 0.7, kGuess = 0.6;
// Share of the parts that must be as usual.
inline constexpr double kUsual = 0.8;

struct Found {
  std::vector<Interval> intervals;
  double confidence = 0;
  std::string_view source;
  std::vector<StepLoop> loops;
};

// A loop within the steps, with `parts` turns in each.
StepLoop Parts(std::string_view what, size_t steps, size_t parts);

class ByOptimizers {
 public:
  // All must outlive this.
  ByOptimizers(const Timeline& timeline, const ThreadRanges& ranges, const std::vector<int64_t>& backwards,
               const std::vector<Interval>& pauses);

  // The number of bursts of optimizers in a step.
  size_t period() const { return period_; }
  // `names_evaluations`: if few steps have batches of a loader, these steps have an evaluation in them.
  Found Steps(bool names_evaluations = true) const;

 private:
  // Optimizers that follow each other directly.
  struct Burst {
    int64_t start = 0, end = 0;
    bool whole = true;
    bool known = true;                                   // false: operations were left out
    std::vector<uint16_t> optimizers;                    // types
    std::vector<std::pair<uint16_t, uint32_t>> content;  // number of each operation since the previous burst
  };

  std::vector<Range>::const_iterator FirstWork(int64_t time) const;
  double ShortestGap(double shortest) const;
  bool IsApart(const Range& before, const Range& next, double shortest) const;
  void MakeBursts();
  static double Likeness(const Burst& a, const Burst& b, bool kinds);
  bool Repeats(size_t period, bool kinds) const;
  struct Pairs {
    size_t alike = 0, pairs = 0;
  };
  Pairs PairsAt(size_t distance, bool kinds) const;
  bool MostAreAlike() const;
  bool LengthsAlternate() const;
  void FindPeriod();
  size_t Phase() const;

  const ThreadRanges& ranges_;
  const std::vector<int64_t>& backwards_;
  const std::vector<Interval>& pauses_;
  bool cut_ = false;
  std::vector<Burst> bursts_;
  size_t period_ = 1;
  double confidence_ = 0;
};

}  // namespace tbprof::torch_steps

#endif  // TBPROF_WRITER_STEPS_TORCH_OPTIMIZERS_H_
