// SPDX-License-Identifier: Apache-2.0
//
// What the memory of the program holds and whether it grows, as sentences.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_MEMORY_TEXT_H_
#define TBPROF_WRITER_OUTPUTS_MEMORY_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Merges the rows of one Python line; the merged row has the frames of the row with the most bytes. Also merges rows
// without a line that have the same native place. Sorted by bytes, most first.
std::vector<HeldBytes> HeldByLine(const Timeline& timeline, const std::vector<HeldBytes>& rows);

// Sorted by the peak of the heap, then by resident memory, highest first. Without those of which neither is known.
std::vector<const Process*> ProcessesByMemory(const Timeline& timeline);

std::string DeviceName(const Timeline& timeline, const DeviceMemory& device);

// Begins a line of the terminal with one of the sentences.
inline constexpr std::string_view kMemoryLabel = "memory: ";

struct MemoryText {
  // `peak 3.1 GiB of heap at 12.4 s, 71 % by train.py:88 (load_batch)` for the process with the highest peak, what is
  // resident beyond the heap, and the device with the highest peak.
  std::vector<std::string> levels;
  // `grows by 1.00 MiB a step, by train.py:12 (remember): about 98 %`: the heap, and what is resident beyond it.
  std::vector<std::string> growth;
};

// Of the timeline's own processes. Empty if nothing is known.
MemoryText MemoryOf(const Timeline& timeline);

// Of the rank whose memory grows or has the highest peak, if there are several; else of the timeline.
MemoryText MemoryOfRanks(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_MEMORY_TEXT_H_
