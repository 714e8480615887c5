// SPDX-License-Identifier: Apache-2.0
//
// Sums of sampled Python stacks: functions and lines by self and total time, for some threads or groups of threads, in
// the whole window or in parts of it.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_TOTALS_H_
#define TBPROF_WRITER_CONVERT_PYTHON_TOTALS_H_

#include <cstdint>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/timeline/python_origin.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct PythonSamplesTotal {
  uint64_t samples = 0;
  int64_t wall_ps = 0;
  int64_t on_cpu_ps = 0;

  void Add(const PythonTally& tally) {
    samples += tally.samples;
    AddSaturating(&wall_ps, tally.wall_ps);
    AddSaturating(&on_cpu_ps, tally.on_cpu_ps);
  }
};

struct PythonFunctionTotal {
  uint32_t function = 0;     // index into PythonTimeline::functions
  PythonSamplesTotal self;   // it was the innermost frame
  PythonSamplesTotal total;  // it was in the stack, however often
};

// An executed line of a function.
struct PythonLineTotal {
  uint32_t function = 0;  // index into PythonTimeline::functions
  int32_t line = -1;      // -1: not known
  PythonSamplesTotal self, total;
};

struct PythonTotals {
  PythonSamplesTotal all;
  PythonSamplesTotal without_frames;           // of `all`
  PythonSamplesTotal importing;                // of `all`: the import of a module was in the stack
  std::vector<PythonFunctionTotal> functions;  // sorted by self.wall_ps descending
  std::vector<PythonLineTotal> lines;          // likewise
  // Likewise, of the program's own files: `self` includes the library code that the line called.
  std::vector<PythonLineTotal> own_lines;
};

// Adds up samples by function and line. One object serves all threads, because the constructor visits each stack.
class PythonSums {
 public:
  // Must outlive this.
  explicit PythonSums(const Timeline& timeline);

  PythonTotals Of(const std::vector<const std::vector<PythonTally>*>& tallies) const;
  PythonTotals OfThreads(const std::vector<const PythonThread*>& threads) const;
  PythonOrigin OriginOf(uint32_t function) const { return origins_[function]; }

 private:
  const PythonTimeline& python_;
  std::vector<PythonOrigin> origins_;    // of functions
  std::vector<PythonLineTotal> lines_;   // without sums
  std::vector<uint32_t> line_of_stack_;  // index into lines_
};

// For each stack the first stack that has the same functions, whatever their lines.
std::vector<uint32_t> StacksWithoutLines(const PythonTimeline& python);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_TOTALS_H_
