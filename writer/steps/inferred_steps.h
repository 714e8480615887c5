// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program that marks none: what a thread of it launches on devices, or calls and waits for, given to
// step_detector.h.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_INFERRED_STEPS_H_
#define TBPROF_WRITER_STEPS_INFERRED_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct InferredSteps {
  std::vector<Step> steps;  // empty: unknown
  std::string source;       // e.g. `repeated launches`
  double confidence = 0;
  std::vector<StepLoop> loops;  // another one that may be that of the steps
  std::string unknown;          // without steps: why there are none, in words
};

// A guess below this is not shown: the steps are unknown.
inline constexpr double kLeastShown = 0.5;

// The steps of `process`. Of a timeline whose calls are all there: one that was cut to its budget repeats nothing.
InferredSteps InferSteps(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_INFERRED_STEPS_H_
