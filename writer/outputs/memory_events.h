// SPDX-License-Identifier: Apache-2.0
//
// What TensorBoard's memory_profile page reads: changes of the bytes in use per allocator, thinned, made from the
// counter tracks of the allocator and what PyTorch reports of tensors; and for the page's table of what is held at the
// peak, what each line of Python, or else each native place, held then.
#ifndef TBPROF_WRITER_OUTPUTS_MEMORY_EVENTS_H_
#define TBPROF_WRITER_OUTPUTS_MEMORY_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The counter track that holds the live bytes of a process's heap.
inline constexpr std::string_view kHeapTrack = "heap live bytes";

struct MemoryEvent {
  int64_t time_ps = 0;
  int64_t delta = 0;  // > 0: an allocation
  int64_t in_use = 0;
  int64_t peak = 0;
  uint32_t process = 0;
  int device = -1;                       // as CounterTrack
  bool lower_bound = false;              // as CounterTrack
  const TensorMemory* tensor = nullptr;  // of Timeline::tensor_memory, and then no counter's
  uint64_t held = 0;                     // not 0: a number of its own, and `delta` is what was held at the peak
  const HeldBytes* row = nullptr;        // of such a one: by what; null: by the rest
};

// By process: what places held at its peak. Outlives the events that are made of it.
using HeldRows = std::vector<std::vector<HeldBytes>>;
HeldRows RowsOfMemoryEvents(const Timeline& timeline);

// In order of time.
std::vector<MemoryEvent> MemoryEvents(const Timeline& timeline, const HeldRows& rows);

// Adds one line if there is anything to show.
void WriteMemoryEvents(const Timeline& timeline, uint64_t& line_id, PlaneBuilder& plane);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_MEMORY_EVENTS_H_
