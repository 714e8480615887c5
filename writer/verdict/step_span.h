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
  std::vector<TimeSpan> spans;  // in order, disjoint, not empty
  uint64_t steps = 0;           // 0: not known
  std::string reason;           // set if basis is kNone
  LoopLines loop;               // set if basis is kLoop
};

StepSpan FindStepSpan(const Timeline& timeline, const PythonTags& tags);

int64_t LengthOf(const std::vector<TimeSpan>& spans);

// The part of the thread's life that is in the window.
TimeSpan TimeOf(const Timeline& timeline, const Thread& thread);

// Calls `visit(start_ps, end_ps)` for each intersection of [start, end) with the spans. `*at` is the span to begin
// with, and is advanced: the calls must come in order of time.
template <typename Visit>
void ForCommon(const std::vector<TimeSpan>& spans, size_t* at, int64_t start, int64_t end, Visit&& visit) {
  while (*at < spans.size() && spans[*at].end_ps <= start) ++*at;
  for (size_t i = *at; i < spans.size() && spans[i].start_ps < end; ++i) {
    const int64_t from = start > spans[i].start_ps ? start : spans[i].start_ps;
    const int64_t to = end < spans[i].end_ps ? end : spans[i].end_ps;
    if (to > from) visit(from, to);
  }
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_STEP_SPAN_H_
