// SPDX-License-Identifier: Apache-2.0
//
// What sampled native stacks add up to: functions by self and total CPU time, for some threads or for groups of them,
// in the whole window or in parts of it.
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
  uint32_t stack = 0;        // index into NativeTimeline::stacks of one that is this function
  NativeSamplesTotal self;   // it was the innermost frame
  NativeSamplesTotal total;  // it was in the stack, however often
};

struct NativeTotals {
  NativeSamplesTotal all;
  NativeSamplesTotal without_frames;           // of `all`
  std::vector<NativeFunctionTotal> functions;  // sorted by self.cpu_ps descending
};

// Adds up what threads have in common. One is made for all of them: it looks at each stack. A function is one by name
// and module.
class NativeSums {
 public:
  // Must outlive this.
  explicit NativeSums(const NativeTimeline& native);

  NativeTotals Of(const std::vector<const std::vector<NativeTally>*>& tallies) const;
  NativeTotals OfThreads(const std::vector<const NativeThread*>& threads) const;
  NativeTotals OfAll() const;
  // Those in which a sample was; `total` is not filled in. Sorted by self.cpu_ps descending.
  std::vector<NativeFunctionTotal> InnermostOf(const std::vector<NativeTally>& tallies) const;

 private:
  const NativeTimeline& native_;
  std::vector<uint32_t> function_of_stack_;     // index into functions_
  std::vector<NativeFunctionTotal> functions_;  // without their numbers
};

// For each stack the first that has the same functions, whatever their lines.
std::vector<uint32_t> NativeStacksWithoutLines(const NativeTimeline& native);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NATIVE_TOTALS_H_
