// SPDX-License-Identifier: Apache-2.0
//
// The places that held most memory: `memory` of summary.json.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_

#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

nlohmann::ordered_json MemoryJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_MEMORY_H_
