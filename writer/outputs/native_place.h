// SPDX-License-Identifier: Apache-2.0
//
// Short texts of native stacks, for the terminal and tables. They show the code that requested memory, not the
// allocator.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_NATIVE_PLACE_H_
#define TBPROF_WRITER_OUTPUTS_NATIVE_PLACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// `at::(anonymous namespace)::relu(at::Tensor const&) (libtorch_cpu.so)` gives `at::relu`; a file and line stay.
std::string ShortFrame(std::string_view frame);

// The two innermost frames that are not part of an allocator: `Fill (heap.cc:12) < main (heap.cc:40)`. `frames` is
// innermost first and has at least one element.
std::string NativePlace(const Timeline& timeline, const std::vector<StringId>& frames);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_NATIVE_PLACE_H_
