// SPDX-License-Identifier: Apache-2.0
//
// The shapes of an operation's inputs, read from the arguments that PyTorch passes to an observer that requests inputs,
// and written as torch.profiler writes them: `[[32, 64], [10, 64], []]`, one for each argument, `[]` for an argument
// that is not a tensor.
//
// Reads c10::IValue and c10::TensorImpl, whose layout depends on the build; calls no function that may run Python.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TORCH_SHAPES_H_
#define TBPROF_PRELOAD_TORCH_SHAPES_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof {

struct TorchShapes {
  uint16_t inputs;                                         // where inputs_ lies in an at::RecordFunction
  uint16_t sizes;                                          // where sizes_and_strides_ lies in a c10::TensorImpl
  size_t (*count)(const void* function);                   // RecordFunction::num_inputs
  int64_t (*size)(const void* tensor, int64_t dimension);  // at::native::size, with which the first sizes are compared
  const void* undefined;                                   // the TensorImpl of an undefined tensor
};

// Returns the text's length without its NUL; 0: the operation has no inputs, or the layout is wrong. `room`: at least
// 16.
size_t WriteTorchShapes(const TorchShapes& torch, const void* function, char* text, size_t room);

// Whether a layout was found to be wrong: after that no shape is written.
bool TorchShapesAreWrong();

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_SHAPES_H_
