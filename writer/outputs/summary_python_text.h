// SPDX-License-Identifier: Apache-2.0
//
// Lines about sampled Python stacks, for the terminal.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_TEXT_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_TEXT_H_

#include <cstddef>

#include "writer/outputs/summary_lines.h"

namespace tbprof {

// The main thread that PythonSection shows; null: no main thread was sampled.
const PythonThread* ShownPythonThread(const Timeline& timeline);

// The source lines that took longest in the main thread whose steps are shown, else in the main thread with the most
// samples; only in its regular steps if these are known. Then functions, time outside the regular steps, and other
// threads that used CPU. Empty: no main thread was sampled.
Section PythonSection(const Timeline& timeline, size_t columns);

// The last sampled stacks of the threads of a process that a signal ended. Empty: there is none.
Section PythonLastStacksSection(const Timeline& timeline, size_t columns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_PYTHON_TEXT_H_
