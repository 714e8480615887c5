// SPDX-License-Identifier: Apache-2.0
//
// The operation that work belongs to, as TensorBoard's tables of operations name it (`tf_op`): for PyTorch's outermost
// operations and backward nodes on the host, and for device work that was launched in them, or in a program's own
// ranges.
//
//   forward/encoder/aten/linear:linear
//   backward/MmBackward0:MmBackward0
//   Optimizer.step/SGD/aten/_foreach_add_:_foreach_add_
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_TORCH_OPERATIONS_H_
#define TBPROF_WRITER_CONVERT_TORCH_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct NamedOperations {
  uint64_t named = 0;   // host events of PyTorch's work with an operation
  uint64_t nested = 0;  // host events without one, since they are a part of another operation
};

// Sets Event::detail of PyTorch's work, and GpuEvent::operation. The timeline must be finished: events nest.
NamedOperations NameOperations(Timeline* timeline);

// XProf takes an event whose name is `left:right` for the operation `left` of the type `right`, so that
// `gloo:all_reduce` and `gloo:broadcast` share one row. Returns a `tf_op` that gives each its own row; empty: the name
// is not of that form.
std::string OperationOfName(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_TORCH_OPERATIONS_H_
