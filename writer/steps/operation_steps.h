// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a program that marks none and launches nothing, from the PyTorch or TensorFlow operations of its
// busiest thread. Sources: step_detector.h on the operations, repeated executions of one function (tf.function), and
// the batches that a loop requests.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_STEPS_OPERATION_STEPS_H_
#define TBPROF_WRITER_STEPS_OPERATION_STEPS_H_

#include <cstdint>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct OperationSteps {
  StepDetection found;  // empty `steps`: none were found
  uint32_t thread = 0;
};

OperationSteps StepsOfOperations(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_OPERATION_STEPS_H_
