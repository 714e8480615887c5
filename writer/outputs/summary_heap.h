// SPDX-License-Identifier: Apache-2.0
//
// The summary's lines about the heap: how much was allocated, how much is left, and where it came from.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_HEAP_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_HEAP_H_

#include "writer/outputs/summary_lines.h"

namespace tbprof {

// Empty if no process allocated anything.
Section HeapSection(const Timeline& timeline, size_t columns);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_HEAP_H_
