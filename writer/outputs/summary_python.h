// SPDX-License-Identifier: Apache-2.0
//
// The member `python` of summary.json: totals of the sampled Python stacks.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Null: no process with a Python interpreter is known.
nlohmann::ordered_json PythonJson(const Timeline& timeline);

// The frames of a stack, innermost first, at most `most`.
nlohmann::ordered_json PythonFramesJson(const Timeline& timeline, uint32_t stack, size_t most);
uint64_t PythonStackDepth(const Timeline& timeline, uint32_t stack);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_
