// SPDX-License-Identifier: Apache-2.0
//
// Calls that read or write and are too short to be recorded: they are only counted. A thread that makes millions of
// them does not compute.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_QUICK_CALLS_H_
#define TBPROF_WRITER_VERDICT_QUICK_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/verdict/cpu_split.h"

namespace tbprof {

struct QuickCalls {
  StepPart part = StepPart::kDisk;
  WaitSlice call;  // its kind, type and most frequent recorded call site; no times
  int64_t ps = 0;  // in the spans of `usage`
  std::string fact;
};

// `usage`: of the thread within the spans that are judged, `gap_ps`: their time between its recorded waits. Empty
// unless the thread uses nearly all of its process's CPU time, since the calls are counted by process; and of calls
// whose time is a small part of that.
std::vector<QuickCalls> QuickCallsOf(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                     uint32_t thread, const UsageInSpans& usage, int64_t gap_ps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_QUICK_CALLS_H_
