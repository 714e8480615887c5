// SPDX-License-Identifier: Apache-2.0
//
// Core files of crashed processes: a section of the terminal, and `cores` of summary.json.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_CORE_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_CORE_H_

#include <cstddef>
#include <nlohmann/json.hpp>

#include "writer/outputs/summary_lines.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Describes the first core file; empty: there is none.
Section CoreSection(const Timeline& timeline, size_t columns);

nlohmann::ordered_json CoresJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_CORE_H_
