// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a program that trains or infers with PyTorch, by the ranges of its optimizers
// (`Optimizer.step#...`) and loaders (`enumerate(DataLoader)#....__next__`). docs/pytorch.md has the rules.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_STEPS_TORCH_STEPS_H_
#define TBPROF_WRITER_STEPS_TORCH_STEPS_H_

#include <cstdint>

#include "writer/steps/step_markers.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Returns the steps of `process`, or of another process if it has none. The timeline may have been cut to its budget:
// optimizers and loaders are kept then, and the remaining operations are trusted less.
MarkedSteps FindTorchSteps(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_TORCH_STEPS_H_
