// SPDX-License-Identifier: Apache-2.0
//
// The terminal's lines about sampled Python stacks.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_TEXT_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_TEXT_H_

#include <cstddef>

#include "writer/outputs/summary_lines.h"

namespace tbprof {

// The main thread that PythonSection is about; null: no main thread was sampled.
const PythonThread* ShownPythonThread(const Timeline& timeline);

// The lines of source that took longest in the main thread whose steps are shown, else in the one with the most
// samples; of its regular steps where they are known. Then functions, what lies outside of the steps, and other threads
// that used CPU. Empty: no main thread was sampled.
Section PythonSection(const Timeline& timeline, size_t columns);

// Where the threads of a process that a signal ended were seen last. Empty: there is none.
Section PythonLastStacksSection(const Timeline& timeline, size_t columns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_TEXT_H_
