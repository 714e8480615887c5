// SPDX-License-Identifier: Apache-2.0
//
// Processes of multiprocessing, and the time until they do their work.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_PROCESS_STARTS_H_
#define TBPROF_WRITER_VERDICT_PROCESS_STARTS_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/verdict/python_tags.h"

namespace tbprof {

// The share of the waits in which a process of multiprocessing below the thread's process had not begun with its
// function: it imports modules, and loads what it was given; or in which a fork child that lived too short to be
// sampled was new. 0 if none of them was started after another's end.
double ShareOfStarts(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                     const std::vector<TimeSpan>& spans);

// Whether it is in a process of multiprocessing, not of a program that was started.
bool IsOfMultiprocessing(const Timeline& timeline, const PythonTags& tags, uint32_t thread);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_PROCESS_STARTS_H_
