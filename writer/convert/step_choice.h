// SPDX-License-Identifier: Apache-2.0
//
// Which steps a profile shows: those that the program marks, else those of PyTorch, else those that repeat; where none
// are found, the capture as one, because TensorBoard's pages need a step.
//
// Process: converter. Of a timeline whose events are finished.
#ifndef TBPROF_WRITER_CONVERT_STEP_CHOICE_H_
#define TBPROF_WRITER_CONVERT_STEP_CHOICE_H_

#include <cstdint>
#include <string>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct StepRequest {
  uint32_t process = 0;     // whose steps: index into Timeline::processes
  std::string marker;       // --step-marker; empty: the usual names
  bool events_cut = false;  // to the profile's size: what is left repeats nothing
};

// Fills Timeline::steps and their source.
void ChooseSteps(const StepRequest& request, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_STEP_CHOICE_H_
