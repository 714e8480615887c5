// SPDX-License-Identifier: Apache-2.0
//
// The live bytes of a process's heap at the borders of a window and in it. The target counts from the moment that the
// allocator is armed; the counts are absolute only if that was before the process's first allocation. Otherwise every
// level is shifted so that the lowest is 0: no heap holds less than 0 bytes, so the results are lower bounds.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_HEAP_LEVELS_H_
#define TBPROF_WRITER_CONVERT_HEAP_LEVELS_H_

#include <cstdint>
#include <vector>

#include "writer/spool/annotations.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {

// The periods in which the allocator was armed.
ArmedPeriods AllocatorPeriods(const std::vector<WindowFact>& windows);

struct HeapLevelsRequest {
  const ProcessFacts& process;
  uint64_t image_start_ticks;  // of the process whose exec made its image: itself, or the ancestor it was forked from
  uint64_t open_ticks, close_ticks;
  int64_t counted_at_open;   // the values of the threads' counters
  int64_t counted_at_close;  // likewise
};

struct HeapLevels {
  bool absolute = true;           // false: lower bounds
  int64_t shift = 0;              // to be added to the levels that the target counted
  int64_t begin_bytes = 0;        // at the opening of the window, or at the process's start in it
  int64_t live_bytes = 0;         // at the close, or at the process's end
  int64_t window_peak_bytes = 0;  // the highest known level in the window
  int64_t peak_before_bytes = 0;  // the highest before the window
  int64_t peak_bytes = 0;         // the highest up to the window's close
};

// The launcher's counter samples in the window, in the order of the spool. A late sample brings the highest level since
// the sample before: such a level from before the window is left out.
std::vector<CounterFact> LooksInWindow(const ProcessFacts& process, uint64_t open_ticks, uint64_t close_ticks);

HeapLevels HeapLevelsOf(const HeapLevelsRequest& request, const ArmedPeriods& periods);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HEAP_LEVELS_H_
