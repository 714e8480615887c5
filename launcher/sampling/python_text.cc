// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_text.h"

#include <cstring>

namespace tbprof {

std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes) {
  std::string text;
  for (size_t at = 0; at + unit_bytes <= units.size(); at += unit_bytes) {
    uint32_t c = 0;
    std::memcpy(&c, units.data() + at, unit_bytes);
    char bytes[4];
    const size_t count = PutUtf8(c, bytes);
    if (text.size() + count > max_bytes) break;
    text.append(bytes, count);
  }
  return text;
}

}  // namespace tbprof
