// SPDX-License-Identifier: Apache-2.0
//
// Waits, allocations and held memory by Python line: sums over the sites of the timeline that have a known line. The
// totals by line do not include sites without a line.
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
// Longest first.
std::vector<PythonLineWait> WaitsByPythonLine(const Timeline& timeline);

// Timeline::wait_sites, with the sites of one line and operation merged; `site` is the one that waited longest. Sites
// without a line stay separate. Longest first.
std::vector<CallSiteTotal> WaitSitesByPythonLine(const Timeline& timeline);

struct PythonLineAllocations {
  StringId python = 0;
  uint64_t samples = 0;
  double bytes = 0;  // estimate
};
// Most bytes first.
std::vector<PythonLineAllocations> AllocationsByPythonLine(const Timeline& timeline);

// HeapSites, with the sites of one line merged; `site` is the one that held most. In the order of ExactHeap::sites.
// Sites without a line are kept only if `all`.
std::vector<HeapSite> HeapByPythonLine(const ExactHeap& heap, bool all);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_PYTHON_LINE_TOTALS_H_
