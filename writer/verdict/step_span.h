// SPDX-License-Identifier: Apache-2.0
//
// Selects the thread and the spans of time that the verdict describes.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_STEP_SPAN_H_
#define TBPROF_WRITER_VERDICT_STEP_SPAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

struct StepSpan {
  VerdictBasis basis = VerdictBasis::kNone;
  uint32_t thread = 0;
  std::vector<TimeSpan> spans;    // in order, disjoint, not empty
  std::vector<TimeSpan> between;  // of kTraining: the time in `spans` that is in no regular step
  uint64_t steps = 0;             // 0: not known
  std::string reason;             // set if basis is kNone
  LoopLines loop;                 // set if basis is kLoop
};

StepSpan FindStepSpan(const Timeline& timeline, const PythonTags& tags);

// Removes `stopped` from the spans. Too little time between the steps is then none.
void LeaveOut(const std::vector<TimeSpan>& stopped, StepSpan* span);

// The part of the thread's life that is in the window.
TimeSpan TimeOf(const Timeline& timeline, const Thread& thread);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_STEP_SPAN_H_
