// SPDX-License-Identifier: Apache-2.0
//
// Operations for kernels that belong to no operation of the program.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_KERNEL_OPERATIONS_H_
#define TBPROF_WRITER_OUTPUTS_KERNEL_OPERATIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// For `void at::native::elementwise<4, at::native::Fill<float>, char*>(int)` the text `elementwise.Fill`: the function,
// and the first of its template's arguments that is neither a number nor a basic type. In the letters that an
// operation's name may have.
std::string OperationOfKernel(std::string_view kernel);

// The operations of a device's kernels that have none, one for each kernel: the table of operations takes kernels of
// one operation for parts of it, and counts the operation once for all of them. Without a scope (`kernels/...`), which
// the viewer would draw as one bar over the kernels and the idle time between them.
class KernelOperations {
 public:
  KernelOperations(const Timeline& timeline, uint32_t device);

  // `elementwise.Fill:Kernel`; with a number if several kernels have the same text.
  const std::string& Of(StringId kernel) const { return texts_.at(kernel); }

 private:
  absl::flat_hash_map<StringId, std::string> texts_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_KERNEL_OPERATIONS_H_
