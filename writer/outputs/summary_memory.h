// SPDX-License-Identifier: Apache-2.0
//
// The places that held most memory: `memory` of summary.json, and its lines in the end block.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Merges the rows of one Python line; the merged row has the frames of the row with the most bytes. Also merges rows
// without a line that have the same native place. Sorted by bytes, most first.
std::vector<HeldBytes> HeldByLine(const Timeline& timeline, const std::vector<HeldBytes>& rows);

// `memory: peak 3.1 GiB of heap at 12.4 s, 71 % by train.py:88 (load_batch)`, for the process with the highest peak;
// whether its memory grows; and the device with the highest peak. At most `columns` wide; empty if nothing is known.
std::vector<std::string> MemoryVerdict(const Timeline& timeline, size_t columns);

nlohmann::ordered_json MemoryJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_
