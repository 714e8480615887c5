// SPDX-License-Identifier: Apache-2.0
//
// A lasting change of the length of the steps within the recorded time, and what takes the additional time.
//
// Process: converter. Part of the timeline (timeline.h); writer/convert/ makes it.
#ifndef TBPROF_WRITER_TIMELINE_STEP_CHANGE_H_
#define TBPROF_WRITER_TIMELINE_STEP_CHANGE_H_

#include <cstdint>

#include "writer/timeline/timeline_verdict.h"

namespace tbprof {

enum class ChangeKind : uint8_t {
  kNone,
  kJump,     // from one step on
  kInterim,  // from one step on, until another one: then as before
  kDrift,    // little by little
};

struct StepChange {
  ChangeKind kind = ChangeKind::kNone;
  int64_t at_ps = 0;      // the start of the first changed step; of a drift, of the first step compared
  int64_t until_ps = -1;  // of kInterim: the end of the last changed step
  int64_t step = 0;       // number of the first changed step, as Step::number
  int64_t before_ps = 0;  // median length of the steps before; of a drift, at its start
  int64_t after_ps = 0;   // of the changed steps; of a drift, at its end
  uint64_t steps_before = 0, steps_after = 0;  // steps compared

  // What explains the difference, per step: the part of the step that changed most in the direction of the change, and
  // the program's own line that did. kRest and file 0: none explains a third of it.
  StepPart part = StepPart::kRest;
  int64_t part_ps = 0;
  PythonLine line;
  int64_t line_ps = 0;
  // The part in which most of the line's difference is, and that difference.
  StepPart line_part = StepPart::kRest;
  int64_t line_part_ps = 0;
  // Code takes the additional time of slower steps, which also wait more for a CPU: what uses the CPUs may be why.
  bool lacks_cpus = false;

  bool IsSlower() const { return after_ps > before_ps; }
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_STEP_CHANGE_H_
