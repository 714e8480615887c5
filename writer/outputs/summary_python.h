// SPDX-License-Identifier: Apache-2.0
//
// The member `python` of summary.json: where sampled Python stacks were.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_

#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Null: no process with a Python interpreter is known.
nlohmann::ordered_json PythonJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_H_
