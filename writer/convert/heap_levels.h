// SPDX-License-Identifier: Apache-2.0
//
// The live bytes of a process's heap at the borders of a window and in it. The target counts from the moment that the
// allocator is armed; only where that was before the process's first allocation are the counts absolute. Otherwise
// every level is moved so that the lowest is 0: no heap holds less than nothing, so what results is a lower bound.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_HEAP_LEVELS_H_
#define TBPROF_WRITER_CONVERT_HEAP_LEVELS_H_

#include <cstdint>
#include <vector>

#include "writer/spool/annotations.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {

// When the allocator was armed.
ArmedPeriods AllocatorPeriods(const std::vector<WindowFact>& windows);

struct HeapLevelsRequest {
  const ProcessFacts& process;
  uint64_t image_start_ticks;  // of the process that made its image by exec: itself, or the ancestor it was forked from
  uint64_t open_ticks, close_ticks;
  int64_t counted_at_open;   // the values of the threads' counters
  int64_t counted_at_close;  // likewise
};

struct HeapLevels {
  bool absolute = true;           // false: lower bounds
  int64_t shift = 0;              // to be added to levels that the target counted
  int64_t begin_bytes = 0;        // when the window opened, or the process began in it
  int64_t live_bytes = 0;         // when it closed, or the process ended
  int64_t window_peak_bytes = 0;  // the highest that was seen in the window
  int64_t peak_before_bytes = 0;  // the highest before the window
  int64_t peak_bytes = 0;         // the highest up to the window's close
};

// What was seen in the window, in the order of the spool. A look that comes late brings the highest level since the
// look before: one from before the window is left out.
std::vector<CounterFact> LooksInWindow(const ProcessFacts& process, uint64_t open_ticks, uint64_t close_ticks);

HeapLevels HeapLevelsOf(const HeapLevelsRequest& request, const ArmedPeriods& periods);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HEAP_LEVELS_H_
