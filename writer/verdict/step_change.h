// SPDX-License-Identifier: Apache-2.0
//
// Finds a lasting change of the length of the steps, and what takes the additional time.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_STEP_CHANGE_H_
#define TBPROF_WRITER_VERDICT_STEP_CHANGE_H_

#include "writer/timeline/timeline.h"
#include "writer/verdict/python_tags.h"

namespace tbprof {

// Of kind kNone if there is none, or if the steps are too uncertain.
StepChange FindStepChange(const Timeline& timeline);

// Regular steps that are far longer than the others, such as each tenth one, in which a model is evaluated.
struct LongSteps {
  uint64_t count = 0, steps = 0;  // 0: they take little time
  double share = 0;               // of the time of all steps
  int64_t mean_ps = 0;            // their mean length: with the number it makes up the share, as a median does not
  StepChange change;              // from the others to them: before_ps, after_ps and what explains the difference
};
LongSteps FindLongSteps(const Timeline& timeline, const PythonTags& tags);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_STEP_CHANGE_H_
