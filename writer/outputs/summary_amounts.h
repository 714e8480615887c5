// SPDX-License-Identifier: Apache-2.0
//
// The machine, and the counts and operations of each step, for summary.json.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_AMOUNTS_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_AMOUNTS_H_

#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

nlohmann::ordered_json MachineJson(const Timeline& timeline);
nlohmann::ordered_json StepCountsJson(const Timeline& timeline);
nlohmann::ordered_json StepOperationsJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_AMOUNTS_H_
