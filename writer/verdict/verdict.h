// SPDX-License-Identifier: Apache-2.0
//
// Makes the verdict of a timeline (writer/timeline/timeline_verdict.h).
//
//   timeline.verdict = MakeVerdict(timeline);
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_VERDICT_H_
#define TBPROF_WRITER_VERDICT_VERDICT_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

Verdict MakeVerdict(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_VERDICT_H_
