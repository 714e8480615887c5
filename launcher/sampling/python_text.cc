// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_text.h"

#include <cstring>

namespace tbprof {

std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes) {
  std::string text;
  for (size_t at = 0; at + unit_bytes <= units.size(); at += unit_bytes) {
    uint32_t c = 0;
    std::memcpy(&c, units.data() + at, unit_bytes);
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff) c = 0xfffd;
    char bytes[4];
    size_t count;
    if (c < 0x80) {
      bytes[0] = static_cast<char>(c);
      count = 1;
    } else {
      count = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
      for (size_t i = count; i-- > 1; c >>= 6) bytes[i] = static_cast<char>(0x80 | (c & 0x3f));
      bytes[0] = static_cast<char>((0xf00u >> count & 0xf0) | c);
    }
    if (text.size() + count > max_bytes) break;
    text.append(bytes, count);
  }
  return text;
}

}  // namespace tbprof
