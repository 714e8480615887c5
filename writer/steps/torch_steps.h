// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program that trains with PyTorch, or infers: what its optimizers (`Optimizer.step#...`) and its loaders
// (`enumerate(DataLoader)#....__next__`) tell. docs/pytorch.md has the rules.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_STEPS_TORCH_STEPS_H_
#define TBPROF_WRITER_STEPS_TORCH_STEPS_H_

#include <cstdint>

#include "writer/steps/step_markers.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The steps of `process`, or of another where it has none. Of a timeline that was cut to its budget as well: optimizers
// and loaders are kept, and what of the rest is left is not trusted beyond that.
MarkedSteps FindTorchSteps(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_TORCH_STEPS_H_
