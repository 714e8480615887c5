// SPDX-License-Identifier: Apache-2.0
//
// A lasting change of the length of the steps, for the terminal and for summary.json.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_STEP_CHANGE_TEXT_H_
#define TBPROF_WRITER_OUTPUTS_STEP_CHANGE_TEXT_H_

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

// `slower: from 14.2 s (step 2830) on a step takes 12.1 ms, before 4.30 ms: +7.40 ms at augment.py:8 augment`; empty:
// no change. Leaves out details until it fits into the columns.
std::string StepChangeText(const Timeline& timeline, size_t columns = SIZE_MAX);

// Of the rank whose own time changed, if there are several: `rank 1: slower: ...`; else of the timeline.
std::string StepChangeOfRanks(const Timeline& timeline, size_t columns);

// Null: no change.
nlohmann::ordered_json StepChangeJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_STEP_CHANGE_TEXT_H_
