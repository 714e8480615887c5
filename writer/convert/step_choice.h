// SPDX-License-Identifier: Apache-2.0
//
// Selects the steps that a profile shows: the steps that the program marks, else PyTorch's, else sequences that repeat;
// if none are found, the whole capture as one step, because TensorBoard's pages need a step.
//
// Process: converter. The events of the timeline must be finished.
#ifndef TBPROF_WRITER_CONVERT_STEP_CHOICE_H_
#define TBPROF_WRITER_CONVERT_STEP_CHOICE_H_

#include <cstdint>
#include <string>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct StepRequest {
  uint32_t process = 0;     // the process of the steps: index into Timeline::processes
  std::string marker;       // --step-marker; empty: the usual names
  bool events_cut = false;  // to the profile's size: outside of the full detail, calls do not repeat
};

// Fills Timeline::steps and their source.
void ChooseSteps(const StepRequest& request, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_STEP_CHOICE_H_
