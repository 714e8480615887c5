// SPDX-License-Identifier: Apache-2.0
//
// The window that a profile shows, in ticks, cut to what is in the spool.
//
// Process: converter.
#ifndef TBPROF_WRITER_CONVERT_CAPTURE_WINDOW_H_
#define TBPROF_WRITER_CONVERT_CAPTURE_WINDOW_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "writer/convert/session_facts.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct CaptureWindow {
  uint64_t open = 0, close = 0;
  // The totals are those of the whole run, which began at totals_open; the timeline shows its end.
  bool whole_run = false;
  uint64_t totals_open = 0;
  bool closed_by_end = false;     // the window ends with the session
  uint64_t drained = UINT64_MAX;  // by then all that belongs into it was drained, or is missing
  std::vector<std::string> cuts;  // what is missing in it, and why

  // Ends are dated when they were seen: those of a command's last moment after it.
  bool HasEnded(uint64_t end_ticks, const SpoolFacts& facts) const {
    return end_ticks != 0 && (closed_by_end || end_ticks <= facts.close_ticks);
  }
};

// Picoseconds since the window's opening, within the window. `timeline`: of which the duration is set.
inline int64_t PsInWindow(const SpoolFacts& facts, const Timeline& timeline, uint64_t ticks) {
  return std::clamp<int64_t>(facts.clock.ToPs(ticks), 0, timeline.duration_ps);
}

// Also sets the origin of the clock of `facts`, and the window's facts in the timeline.
CaptureWindow FindCaptureWindow(const SessionFacts& session, const TimelineRequest& request, SpoolFacts* facts,
                                Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CAPTURE_WINDOW_H_
