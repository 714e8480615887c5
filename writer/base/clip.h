// SPDX-License-Identifier: Apache-2.0
//
// Clips an event to the window.
//
// Process: converter.
#ifndef TBPROF_WRITER_BASE_CLIP_H_
#define TBPROF_WRITER_BASE_CLIP_H_

#include <algorithm>
#include <cstdint>

namespace tbprof {

// Sets the times of `event` (Event, GpuEvent), in ticks, to the part of [start, end) that lies in [open, close); the
// two must touch. An end that was cut off is flagged.
template <typename Shown>
void ClipTo(uint64_t open, uint64_t close, uint64_t start, uint64_t end, Shown* event) {
  const uint64_t from = std::max(start, open);
  event->start_ps = static_cast<int64_t>(from);
  event->duration_ps = static_cast<int64_t>(std::min(end, close) - from);
  if (start < open) event->flags |= Shown::kClippedAtStart;
  if (end > close) event->flags |= Shown::kClippedAtEnd;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_CLIP_H_
