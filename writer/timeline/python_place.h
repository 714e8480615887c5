// SPDX-License-Identifier: Apache-2.0
//
// Texts of Python frames: `train.py:42 remember`, and of stacks: `train.py:42 remember < train.py:88 main`.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_TIMELINE_PYTHON_PLACE_H_
#define TBPROF_WRITER_TIMELINE_PYTHON_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "writer/timeline/timeline.h"

namespace tbprof {

// The text of one frame: base name of the file, or its path; executed line; function. Unknown values are `?`.
std::string PythonFrameText(const Timeline& timeline, const PythonStack& frame, bool whole_path = false);

// The text of a stack, innermost first, with at most `callers` callers. `stack`: index into PythonTimeline::stacks, not
// 0.
std::string PythonStackText(const Timeline& timeline, uint32_t stack, size_t callers);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_PYTHON_PLACE_H_
