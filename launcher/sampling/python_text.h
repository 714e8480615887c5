// SPDX-License-Identifier: Apache-2.0
//
// CPython's unicode objects: what their state word says, and their characters as UTF-8.
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

namespace tbprof {

// interned:2 kind:3 compact:1 ascii:1, the same from 3.8 to 3.13.
struct PythonTextState {
  explicit PythonTextState(uint32_t word)
      : unit_bytes(word >> 2 & 7), compact((word >> 5 & 1) != 0), ascii((word >> 6 & 1) != 0) {}
  // Kind 0, a string without its final form (up to 3.11), is none that a code object has.
  bool valid() const { return (unit_bytes == 1 || unit_bytes == 2 || unit_bytes == 4) && (!ascii || unit_bytes == 1); }

  uint32_t unit_bytes;
  bool compact;
  bool ascii;
};

// Characters of 1, 2 or 4 bytes; surrogates and numbers that are none become U+FFFD. Cut at a character.
std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes);

// The unicode object at `address`, cut to `max_bytes`; nothing where there is none. `read` copies all of a range, or
// returns false.
std::optional<std::string> ReadPythonText(const PythonLayout& layout, uint64_t address, size_t max_bytes,
                                          const std::function<bool(uint64_t address, void* out, size_t size)>& read);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_
