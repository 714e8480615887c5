// SPDX-License-Identifier: Apache-2.0
//
// Short texts of native stacks, for the terminal and tables: who wanted memory, not how it is had.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_NATIVE_PLACE_H_
#define TBPROF_WRITER_OUTPUTS_NATIVE_PLACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// `at::(anonymous namespace)::relu(at::Tensor const&) (libtorch_cpu.so)` as `at::relu`; a file and line stay.
std::string ShortFrame(std::string_view frame);

// Of frames, innermost first, the first two that are not of an allocator: `Fill (heap.cc:12) < main (heap.cc:40)`.
// `frames` has one at least.
std::string NativePlace(const Timeline& timeline, const std::vector<StringId>& frames);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_NATIVE_PLACE_H_
