// SPDX-License-Identifier: Apache-2.0
//
// Names of C++ functions for a line of the terminal.
#ifndef TBPROF_WRITER_BASE_SYMBOL_TEXT_H_
#define TBPROF_WRITER_BASE_SYMBOL_TEXT_H_

#include <string>
#include <string_view>

namespace tbprof {

// `void at::native::(anonymous namespace)::max_pool<float>(at::Tensor const&)`: `at::native::max_pool`. What is no such
// name, `[libgomp.so.1]`, and operators stay as they are. `name` may be cut off anywhere.
std::string ShortSymbol(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SYMBOL_TEXT_H_
