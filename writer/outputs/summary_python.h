// SPDX-License-Identifier: Apache-2.0
//
// The member `python` of summary.json, and its lines of the terminal's summary: where sampled Python stacks were.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Null: no process with a Python interpreter is known.
nlohmann::ordered_json PythonJson(const Timeline& timeline);

// At most three lines, of the main thread whose steps are shown, else of the one with the most samples.
std::vector<std::string> PythonText(const Timeline& timeline, size_t columns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_
