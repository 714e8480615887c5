// SPDX-License-Identifier: Apache-2.0
//
// Whether a program without steps compiles once, or again and again.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_COMPILE_TIME_H_
#define TBPROF_WRITER_VERDICT_COMPILE_TIME_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"
#include "writer/verdict/python_tags.h"

namespace tbprof {

// True: in the last third of the time, too, it compiles several times, for at least half of the share that compiling
// has of all.
bool CompilesToTheEnd(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                      const std::vector<TimeSpan>& spans);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_COMPILE_TIME_H_
