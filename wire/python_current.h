// SPDX-License-Identifier: Apache-2.0
//
// Flags of PythonStack records: the Python stack of the blocks of --malloc=exact and of calls of the CUDA driver, whose
// records have no room for it.
//
// Process: target and converter.
#ifndef TBPROF_WIRE_PYTHON_CURRENT_H_
#define TBPROF_WIRE_PYTHON_CURRENT_H_

#include <stdint.h>

namespace tbprof {

// A PythonStackFlag, for a PythonStack record without frames: this thread made its following Allocation records, except
// releases, under its stack with that number, which was recorded before; 0: under an unknown stack.
inline constexpr uint16_t kPythonStackCurrent = 4;
// Likewise without frames: at `ticks`, or within a microsecond after it, this thread entered the CUDA driver under the
// stack with that number.
inline constexpr uint16_t kPythonStackCall = 8;

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_CURRENT_H_
