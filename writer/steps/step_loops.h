// SPDX-License-Identifier: Apache-2.0
//
// Finds the loop around the detected steps: iterations of reinforcement learning with several updates each, epochs,
// folds.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_STEP_LOOPS_H_
#define TBPROF_WRITER_STEPS_STEP_LOOPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct LoopStep {
  int64_t length_ps = 0;  // without waits for its batch
  bool has_batch = false;
  // What happened between this step and the step before.
  bool after_end_of_data = false;
  bool after_evaluation = false;
};

// Finds a loop whose turns all have the same number of `steps`. A turn begins with a step that is longer than the
// others, or behind an evaluation or the end of a data set. Returns nothing if there are too few turns, or if each turn
// has one step. If steps have a batch each, their lengths are no evidence: loader and optimizer agree on the steps, and
// every Nth step is long if the loader's workers compete with it for the CPU.
std::optional<StepLoop> FindOuterLoop(const std::vector<LoopStep>& steps);

// E.g. `40 iterations of 16 steps`, `400 batches, 4 in each step`.
std::string LoopText(const StepLoop& loop);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_LOOPS_H_
