// SPDX-License-Identifier: Apache-2.0
//
// Converts the characters of CPython's unicode objects to UTF-8, and recognises addresses of objects.
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

// Whether a word of the interpreter may be the address of an object: aligned, above the first page and below 2^56.
inline bool IsPointer(uint64_t value) { return value >= 4096 && value % 8 == 0 && value < uint64_t{1} << 56; }

// Characters have 1, 2 or 4 bytes. Surrogates and invalid code points become U+FFFD. Truncates between two characters.
std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes);

// Reads the unicode object at `address`, truncated to `max_bytes`; std::nullopt: there is none. `read` copies a whole
// range, or returns false.
std::optional<std::string> ReadPythonText(const PythonLayout& layout, uint64_t address, size_t max_bytes,
                                          const std::function<bool(uint64_t address, void* out, size_t size)>& read);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_
