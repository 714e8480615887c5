// SPDX-License-Identifier: Apache-2.0
//
// An event of a host line while the spool is read: its times are ticks, and its place in the code has no name yet.
// HostEvents converts it to an Event of the timeline.
//
// Process: converter.
#ifndef TBPROF_WRITER_CONVERT_RAW_EVENT_H_
#define TBPROF_WRITER_CONVERT_RAW_EVENT_H_

#include <algorithm>
#include <cstdint>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct RawEvent {
  uint64_t start = 0;     // ticks
  uint64_t duration = 0;  // ticks; 0: an instant
  uint64_t object = 0;
  int64_t value = 0;    // for ValueKind::kCorrelation until CorrelateGpu: `driver << 32 | correlation`
  uint32_t site = 0;    // from CallTotals; 0: not known
  StringId detail = 0;  // as Event::detail
  StringId shapes = 0;  // of PyTorch's operations, which have no site
  uint16_t type = 0;
  uint8_t flags = 0;         // Event::Flag
  bool may_be_step = false;  // in the share of the budget for steps, which is not cut
  int32_t error = 0;
  uint32_t bytes = 0;   // size in the file, set by HostEvents
  uint32_t python = 0;  // as Event::python

  uint64_t end() const { return start + duration; }
};

// Sets the times to the part of [start, end) in [open, close), which the interval must touch, and flags what was cut
// off.
inline void ClipTo(uint64_t open, uint64_t close, uint64_t start, uint64_t end, RawEvent* event) {
  event->start = std::max(start, open);
  event->duration = std::min(end, close) - event->start;
  if (start < open) event->flags |= Event::kClippedAtStart;
  if (end > close) event->flags |= Event::kClippedAtEnd;
}

// Copies everything except the times. `call_site`: the name of the site.
inline Event WithoutTimes(const RawEvent& raw, StringId call_site) {
  Event event;
  event.object = raw.object;
  event.value = raw.value;
  event.call_site = call_site;
  event.detail = raw.detail;
  event.type = raw.type;
  event.flags = raw.flags;
  event.error = raw.error;
  event.python = raw.python;
  return event;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_RAW_EVENT_H_
