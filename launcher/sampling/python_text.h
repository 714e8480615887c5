// SPDX-License-Identifier: Apache-2.0
//
// The characters of CPython's unicode objects as UTF-8.
//
// Process: launcher. Any thread.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "wire/python_layout.h"
#include "wire/python_text.h"

namespace tbprof {

// Characters of 1, 2 or 4 bytes; surrogates and numbers that are none become U+FFFD. Cut at a character.
std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes);

// The unicode object at `address`, cut to `max_bytes`; nothing where there is none. `read` copies all of a range, or
// returns false.
std::optional<std::string> ReadPythonText(const PythonLayout& layout, uint64_t address, size_t max_bytes,
                                          const std::function<bool(uint64_t address, void* out, size_t size)>& read);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_
