// SPDX-License-Identifier: Apache-2.0
//
// One frame of a PythonStack record in a word.
//
// Process: target and launcher. Any thread. No allocation.
#ifndef TBPROF_WIRE_PYTHON_FRAME_H_
#define TBPROF_WIRE_PYTHON_FRAME_H_

#include <stdint.h>

namespace tbprof {

// A code object's address (a multiple of 8, 48 bits) and the instruction in it, in units of two bytes. A unit above
// 2^19 - 2 or below 0 is stored as not known.
using PythonFrameWord = uint64_t;
inline constexpr int kPythonCodeBits = 45;
inline PythonFrameWord PackPythonFrame(uint64_t code, int64_t unit) {
  const bool known = unit >= 0 && unit < (int64_t{1} << (64 - kPythonCodeBits)) - 1;
  return (code >> 3 & ((uint64_t{1} << kPythonCodeBits) - 1)) |
         (known ? static_cast<uint64_t>(unit + 1) << kPythonCodeBits : 0);
}
inline uint64_t PythonCodeOf(PythonFrameWord frame) { return (frame & ((uint64_t{1} << kPythonCodeBits) - 1)) << 3; }
// Byte offset, as PyCode_Addr2Line takes it; -1: not known.
inline int32_t PythonInstructionOf(PythonFrameWord frame) {
  const auto above = static_cast<int32_t>(frame >> kPythonCodeBits);
  return above == 0 ? -1 : 2 * (above - 1);
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_FRAME_H_
