// SPDX-License-Identifier: Apache-2.0
//
// What sampled Python stacks add up to: functions by self and total time, for some threads or for groups of them.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_TOTALS_H_
#define TBPROF_WRITER_CONVERT_PYTHON_TOTALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/base/saturating.h"
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

struct PythonTotals {
  PythonSamplesTotal all;
  PythonSamplesTotal without_frames;           // of `all`
  std::vector<PythonFunctionTotal> functions;  // sorted by self.wall_ps descending
};

PythonTotals TotalsOfThreads(const PythonTimeline& python, const std::vector<const PythonThread*>& threads);

// Threads that do the same: `main`, or those whose names differ in their numbers only; of processes of one name.
struct PythonGroup {
  std::string process;   // its name
  bool forked = false;   // its processes are fork children: workers of a loader
  bool is_main = false;  // main threads
  std::string threads;   // `main`, else the stem of their names
  std::vector<const PythonThread*> members;
};
// In the order of their first members. The timeline must outlive them.
std::vector<PythonGroup> GroupPythonThreads(const Timeline& timeline);

// `Worker-12`, `Worker_3`, `Worker`: `Worker`.
std::string_view StemOfThreadName(std::string_view name);

// For each stack the first that has the same functions, whatever their lines.
std::vector<uint32_t> StacksWithoutLines(const PythonTimeline& python);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_TOTALS_H_
