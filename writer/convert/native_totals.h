// SPDX-License-Identifier: Apache-2.0
//
// Sums of sampled native stacks: functions by self and total CPU time, for some threads or groups of threads, in the
// whole window or in parts of it.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_NATIVE_TOTALS_H_
#define TBPROF_WRITER_CONVERT_NATIVE_TOTALS_H_

#include <cstdint>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct NativeSamplesTotal {
  uint64_t samples = 0;
  int64_t cpu_ps = 0;

  void Add(const NativeTally& tally) {
    samples += tally.samples;
    AddSaturating(&cpu_ps, tally.cpu_ps);
  }
};

struct NativeFunctionTotal {
  uint32_t stack = 0;        // index into NativeTimeline::stacks of one frame of this function
  NativeSamplesTotal self;   // it was the innermost frame
  NativeSamplesTotal total;  // it was in the stack, however often
};

struct NativeTotals {
  NativeSamplesTotal all;
  NativeSamplesTotal without_frames;           // of `all`
  std::vector<NativeFunctionTotal> functions;  // sorted by self.cpu_ps descending
};

// Adds up samples by function. One object serves all threads, because the constructor visits each stack. A function is
// identified by name and module.
class NativeSums {
 public:
  // Must outlive this.
  explicit NativeSums(const NativeTimeline& native);

  NativeTotals Of(const std::vector<const std::vector<NativeTally>*>& tallies) const;
  NativeTotals OfThreads(const std::vector<const NativeThread*>& threads) const;
  NativeTotals OfAll() const;
  // The functions in which the samples were; `total` is not filled in. Sorted by self.cpu_ps descending.
  std::vector<NativeFunctionTotal> InnermostOf(const std::vector<NativeTally>& tallies) const;

 private:
  const NativeTimeline& native_;
  std::vector<uint32_t> function_of_stack_;     // index into functions_
  std::vector<NativeFunctionTotal> functions_;  // without sums
};

// For each stack the first stack that has the same functions, whatever their lines.
std::vector<uint32_t> NativeStacksWithoutLines(const NativeTimeline& native);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NATIVE_TOTALS_H_
