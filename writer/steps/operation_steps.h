// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program that marks none and launches nothing, from the operations of PyTorch or TensorFlow that the thread
// that works most calls: what step_detector.h finds in them, one function (tf.function) again and again, and the
// batches that a loop asks for.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_STEPS_OPERATION_STEPS_H_
#define TBPROF_WRITER_STEPS_OPERATION_STEPS_H_

#include <cstdint>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct OperationSteps {
  StepDetection found;  // without steps: none were found
  uint32_t thread = 0;
};

OperationSteps StepsOfOperations(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_OPERATION_STEPS_H_
