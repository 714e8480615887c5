// SPDX-License-Identifier: Apache-2.0
//
// The names that PyTorch gives its own ranges, whatever the program: which are the optimizer's, which the loader's.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_TORCH_NAMES_H_
#define TBPROF_WRITER_TORCH_NAMES_H_

#include <string_view>

#include "writer/timeline.h"

namespace tbprof {

inline constexpr std::string_view kOptimizerStep = "Optimizer.step#";
inline constexpr std::string_view kDataLoader = "enumerate(DataLoader)#";
// PyTorch tells it as an operation. In it is the node itself, by its own name.
inline constexpr std::string_view kEvaluateNode = "autograd::engine::evaluate_function: ";

inline bool IsTorch(RangeOrigin origin) { return origin != RangeOrigin::kProgram; }

// An operation of PyTorch or a node of its backward pass, no range that a program names.
inline bool IsTorchWork(const EventType& type) {
  return type.family == EventFamily::kAnnotation &&
         (type.origin == RangeOrigin::kTorchOperation || type.origin == RangeOrigin::kTorchBackward);
}

// `Optimizer.step#SGD.step`.
inline bool IsOptimizerStep(RangeOrigin origin, std::string_view name) {
  return origin == RangeOrigin::kTorchUser && name.starts_with(kOptimizerStep);
}

// `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__`: the program gets its next batch.
inline bool IsLoaderNext(RangeOrigin origin, std::string_view name) {
  return origin == RangeOrigin::kTorchUser && name.starts_with(kDataLoader) && name.ends_with(".__next__");
}

// Ranges that steps are made of.
inline bool MakesTorchSteps(RangeOrigin origin, std::string_view name) {
  return IsOptimizerStep(origin, name) || IsLoaderNext(origin, name);
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_TORCH_NAMES_H_
