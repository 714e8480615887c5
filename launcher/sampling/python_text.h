// SPDX-License-Identifier: Apache-2.0
//
// The characters of CPython's unicode objects as UTF-8.
//
// Process: launcher. Any thread.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/python_text.h"

namespace tbprof {

// Characters of 1, 2 or 4 bytes; surrogates and numbers that are none become U+FFFD. Cut at a character.
std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_TEXT_H_
