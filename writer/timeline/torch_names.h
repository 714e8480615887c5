// SPDX-License-Identifier: Apache-2.0
//
// Classifies the names that PyTorch and TensorFlow give their own ranges in every program, such as those of optimizers
// and loaders.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_TIMELINE_TORCH_NAMES_H_
#define TBPROF_WRITER_TIMELINE_TORCH_NAMES_H_

#include <string_view>

#include "wire/records.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr std::string_view kOptimizerStep = "Optimizer.step#";
inline constexpr std::string_view kDataLoader = "enumerate(DataLoader)#";
// PyTorch reports this range as an operation. The node itself is nested in it, under its own name.
inline constexpr std::string_view kEvaluateNode = "autograd::engine::evaluate_function: ";

inline bool IsTorch(RangeOrigin origin) {
  return origin != RangeOrigin::kProgram && origin != RangeOrigin::kTensorFlow;
}

// An operation of PyTorch or TensorFlow or a node of a backward pass, but not a range that a program names.
inline bool IsFrameworkWork(const EventType& type) {
  return type.family == EventFamily::kAnnotation &&
         (type.origin == RangeOrigin::kTorchOperation || type.origin == RangeOrigin::kTorchBackward ||
          type.origin == RangeOrigin::kTensorFlow);
}

// PyTorch only: the work that tbprof's PyTorch library samples.
inline bool IsTorchWork(const EventType& type) {
  return IsFrameworkWork(type) && type.origin != RangeOrigin::kTensorFlow;
}

// `Optimizer.step#SGD.step`.
inline bool IsOptimizerStep(RangeOrigin origin, std::string_view name) {
  return origin == RangeOrigin::kTorchUser && name.starts_with(kOptimizerStep);
}

// `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__`: the program gets its next batch.
inline bool IsLoaderNext(RangeOrigin origin, std::string_view name) {
  return origin == RangeOrigin::kTorchUser && name.starts_with(kDataLoader) && name.ends_with(".__next__");
}

// A loop over a tf.data.Dataset gets its next batch. Keras does that within its function.
inline bool IsDatasetNext(const EventType& type) {
  return type.origin == RangeOrigin::kTensorFlow && type.name.starts_with("IteratorGetNext");
}

inline bool IsTorchNext(const EventType& type) {
  return type.family == EventFamily::kAnnotation && IsLoaderNext(type.origin, type.name);
}

// The next batch of the loop that runs on this thread, of PyTorch's loader or of a tf.data.Dataset.
inline bool IsNextBatch(const EventType& type) {
  return type.family == EventFamily::kAnnotation && (IsLoaderNext(type.origin, type.name) || IsDatasetNext(type));
}

// An iterator of tf.data returns an element, on any thread (preload/hooks_tensorflow.cc).
inline bool IsIteratorCall(const EventType& type) {
  return type.family == EventFamily::kOther && type.name == "IteratorGetNext";
}

// The operation that the pin-memory thread of a DataLoader runs for each batch.
inline bool IsPinning(const EventType& type) {
  return type.origin == RangeOrigin::kTorchOperation &&
         (type.name == "aten::pin_memory" || type.name == "aten::_pin_memory");
}

// An interval in which operations were left out, since they would have cost too much.
inline bool IsTorchPause(const EventType& type) {
  return type.origin == RangeOrigin::kTorchUser && type.name == kTorchPause;
}

// The function of an operation that tf.function has made: `one_step_on_iterator` for
// `__inference_one_step_on_iterator_1234`; empty: it is not such an operation.
inline std::string_view TensorFlowFunction(std::string_view name) {
  for (const std::string_view kind : {"__inference_", "__forward_", "__backward_"}) {
    if (!name.starts_with(kind)) continue;
    name.remove_prefix(kind.size());
    const size_t end = name.find_last_not_of("0123456789");
    return end != std::string_view::npos && end > 0 && name[end] == '_' ? name.substr(0, end) : name;
  }
  return {};
}

// Ranges from which steps are made.
inline bool MakesTorchSteps(RangeOrigin origin, std::string_view name) {
  return IsOptimizerStep(origin, name) || IsLoaderNext(origin, name);
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TORCH_NAMES_H_
