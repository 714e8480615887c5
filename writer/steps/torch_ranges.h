// SPDX-License-Identifier: Apache-2.0
//
// Reads from PyTorch's ranges on a thread what its steps consist of: optimizers, batches and operations, in order of
// time.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_STEPS_TORCH_RANGES_H_
#define TBPROF_WRITER_STEPS_TORCH_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof::torch_steps {

struct Range {
  int64_t start = 0, end = 0;
  uint16_t type = 0;
  bool whole = true;
};

// The ranges of one thread.
struct ThreadRanges {
  uint32_t thread = 0;
  std::vector<Range> optimizers;  // outermost, without those that a backward pass calls itself
  std::vector<Range> batches;     // outermost
  std::vector<Range> work;        // outermost operations outside of the loader
};

// The role of each event type in a step.
class Types {
 public:
  explicit Types(const Timeline& timeline);
  enum Kind : uint8_t { kNone, kOptimizer, kBatch, kOperation, kBackward };
  Kind operator[](uint16_t type) const { return kinds_[type]; }
  bool any() const { return any_; }

 private:
  std::vector<Kind> kinds_;
  bool any_ = false;
};

ThreadRanges ReadThread(const Timeline& timeline, uint32_t thread, const Types& types);
// Start times of the process's backward operations, in order.
std::vector<int64_t> Backwards(const Timeline& timeline, uint32_t process, const Types& types);

// An interval of time. Irregular intervals have a label, regular ones have none.
struct Interval {
  int64_t start = 0, end = 0;
  std::string_view label;
};
inline constexpr std::string_view kEvaluation = "evaluation", kDataOnly = "data only",
                                  kLost = "irregular: records lost", kWithEvaluation = "irregular: an evaluation in it";

// The intervals in which operations are missing, in order: the observer left them out, or the profile's size did.
std::vector<Interval> Pauses(const Timeline& timeline, uint32_t process);
// Returns whether an interval overlaps [start, end). `intervals`: in order, without overlaps.
bool OverlapAny(const std::vector<Interval>& intervals, int64_t start, int64_t end);
// Returns whether a time is in [begin, end). `times`: in order.
bool AnyIn(const std::vector<int64_t>& times, int64_t begin, int64_t end);

}  // namespace tbprof::torch_steps

#endif  // TBPROF_WRITER_STEPS_TORCH_RANGES_H_
