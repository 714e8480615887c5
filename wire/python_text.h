// SPDX-License-Identifier: Apache-2.0
//
// CPython's unicode objects: the fields of their state word, and their characters as UTF-8.
//
// Process: target and launcher. Any thread. No allocation.
#ifndef TBPROF_WIRE_PYTHON_TEXT_H_
#define TBPROF_WIRE_PYTHON_TEXT_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof {

// interned:2 kind:3 compact:1 ascii:1, the same from 3.8 to 3.15.
struct PythonTextState {
  explicit PythonTextState(uint32_t word)
      : unit_bytes(word >> 2 & 7), compact((word >> 5 & 1) != 0), ascii((word >> 6 & 1) != 0) {}
  // Kind 0, a string without its final form (up to 3.11), does not occur in a code object.
  bool valid() const { return (unit_bytes == 1 || unit_bytes == 2 || unit_bytes == 4) && (!ascii || unit_bytes == 1); }

  uint32_t unit_bytes;
  bool compact;
  bool ascii;
};

// Surrogates, and numbers that are not a character, become U+FFFD. Returns the number of bytes written.
inline size_t PutUtf8(uint32_t c, char bytes[4]) {
  if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff) c = 0xfffd;
  if (c < 0x80) {
    bytes[0] = static_cast<char>(c);
    return 1;
  }
  const size_t count = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = count; i-- > 1; c >>= 6) bytes[i] = static_cast<char>(0x80 | (c & 0x3f));
  bytes[0] = static_cast<char>((0xf00u >> count & 0xf0) | c);
  return count;
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_TEXT_H_
