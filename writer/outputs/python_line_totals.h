// SPDX-License-Identifier: Apache-2.0
//
// What lines of Python waited for, allocated and held: the sites of the timeline that are known to be a line's, added
// up by it. What has no line is in none of these.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_PYTHON_LINE_TOTALS_H_
#define TBPROF_WRITER_OUTPUTS_PYTHON_LINE_TOTALS_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct PythonLineWait {
  StringId python = 0;
  uint64_t calls = 0;
  int64_t total_ps = 0;
  int64_t longest_ps = 0;
};
// The longest first.
std::vector<PythonLineWait> WaitsByPythonLine(const Timeline& timeline);

struct PythonLineAllocations {
  StringId python = 0;
  uint64_t samples = 0;
  double bytes = 0;  // estimate
};
// The most bytes first.
std::vector<PythonLineAllocations> AllocationsByPythonLine(const Timeline& timeline);

// HeapSites of one line are one, whose `site` is that of them which held most. In the order of ExactHeap::sites; those
// without a line stay where `all`.
std::vector<HeapSite> HeapByPythonLine(const ExactHeap& heap, bool all);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_PYTHON_LINE_TOTALS_H_
