// SPDX-License-Identifier: Apache-2.0
//
// Events for TensorBoard's memory_profile page: thinned changes of the bytes in use per allocator, made from the
// counter tracks of the allocator and PyTorch's reports of tensors. For the page's table of memory held at the peak:
// the bytes that each Python line, or else each native place, held at that time.
#ifndef TBPROF_WRITER_OUTPUTS_MEMORY_EVENTS_H_
#define TBPROF_WRITER_OUTPUTS_MEMORY_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct MemoryEvent {
  int64_t time_ps = 0;
  int64_t delta = 0;  // > 0: an allocation
  int64_t in_use = 0;
  int64_t peak = 0;
  uint32_t process = 0;
  int device = -1;                       // as CounterTrack
  bool lower_bound = false;              // as CounterTrack
  const TensorMemory* tensor = nullptr;  // in Timeline::tensor_memory; the event then comes from no counter
  uint64_t held = 0;                     // number of a row held at the peak, and `delta` is its size; 0: no such row
  const HeldBytes* row = nullptr;        // the place of such a row; null: the rest
};

// By process: the bytes that places held at its peak. Must outlive the events that are made from it.
using HeldRows = std::vector<std::vector<HeldBytes>>;
HeldRows RowsOfMemoryEvents(const Timeline& timeline);

// Sorted by time.
std::vector<MemoryEvent> MemoryEvents(const Timeline& timeline, const HeldRows& rows);

// Adds one line if there are events.
void WriteMemoryEvents(const Timeline& timeline, uint64_t& line_id, PlaneBuilder& plane);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_MEMORY_EVENTS_H_
