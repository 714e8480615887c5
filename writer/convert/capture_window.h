// SPDX-License-Identifier: Apache-2.0
//
// The window that a profile shows, in ticks, limited to the content of the spool.
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
  // The totals cover the whole run, which began at totals_open; the timeline shows the end of the run.
  bool whole_run = false;
  uint64_t totals_open = 0;
  bool closed_by_end = false;     // the window ends with the session
  uint64_t drained = UINT64_MAX;  // all records of the window are drained by then, or missing
  std::vector<std::string> cuts;  // texts on missing parts, with causes

  // The launcher dates an end when it notices it: an end in a command's last moment is dated after that moment.
  bool HasEnded(uint64_t end_ticks, const SpoolFacts& facts) const {
    return end_ticks != 0 && (closed_by_end || end_ticks <= facts.close_ticks);
  }
};

// Picoseconds since the window opened, clamped to the window. `timeline`: its duration must be set.
inline int64_t PsInWindow(const SpoolFacts& facts, const Timeline& timeline, uint64_t ticks) {
  return std::clamp<int64_t>(facts.clock.ToPs(ticks), 0, timeline.duration_ps);
}

// Finds the window. Also sets the clock origin of `facts`, and the facts of the window in the timeline.
CaptureWindow FindCaptureWindow(const SessionFacts& session, const TimelineRequest& request, SpoolFacts* facts,
                                Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CAPTURE_WINDOW_H_
