// SPDX-License-Identifier: Apache-2.0
//
// Infers the steps of a program that marks none: passes the device launches of one of its threads, or its calls and
// waits, to step_detector.h.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_INFERRED_STEPS_H_
#define TBPROF_WRITER_STEPS_INFERRED_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/steps/step_markers.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct InferredSteps {
  std::vector<Step> steps;  // empty: unknown
  std::string source;       // e.g. `repeated launches`
  double confidence = 0;
  std::vector<StepLoop> loops;  // other loops that may be the loop of the steps, or that are around it
  std::string unknown;          // if there are no steps: the reason, as text
};

// Steps with a lower confidence are not shown: the steps are unknown.
inline constexpr double kLeastShown = 0.5;

// The steps of `process`. The timeline must have all calls: after it was cut to its budget, calls do not repeat.
InferredSteps InferSteps(const Timeline& timeline, uint32_t process);

// The steps of a loop of Python that has a line whose text, such as `train.py:42 fit`, matches. The user has chosen
// it, so it is shown even if what it does is unusual for steps, but not if its turns are unsure. No steps and no
// reason: no such line.
InferredSteps StepsAtLine(const Timeline& timeline, uint32_t process, const StepNames& names);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_INFERRED_STEPS_H_
