// SPDX-License-Identifier: Apache-2.0
//
// What filled the memory: `memory` of summary.json, and its lines in the end block.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Rows of one line of Python are one, whose frames are those of the most bytes; likewise rows without a line that have
// one native place. By bytes, most first.
std::vector<HeldBytes> HeldByLine(const Timeline& timeline, const std::vector<HeldBytes>& rows);

// `memory: peak 3.1 GiB of heap at 12.4 s, 71 % by train.py:88 (load_batch)`, of the process with the highest peak;
// whether it grows; and the device with the highest peak. At most `columns` wide; none where nothing is known.
std::vector<std::string> MemoryVerdict(const Timeline& timeline, size_t columns);

nlohmann::ordered_json MemoryJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_
