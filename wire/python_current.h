// SPDX-License-Identifier: Apache-2.0
//
// Under which Python stack blocks of --malloc=exact were allocated, and the CUDA driver was called: their records have
// no room for it.
//
// Process: target and converter.
#ifndef TBPROF_WIRE_PYTHON_CURRENT_H_
#define TBPROF_WIRE_PYTHON_CURRENT_H_

#include <stdint.h>

namespace tbprof {

// A PythonStackFlag of a PythonStack record without frames: from here on Allocation records of this thread that are no
// releases were made under its stack with that number, recorded before; 0: under none that is known.
inline constexpr uint16_t kPythonStackCurrent = 4;
// Likewise without frames: at `ticks`, or within a microsecond behind it, this thread entered the CUDA driver under
// that stack.
inline constexpr uint16_t kPythonStackCall = 8;

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_CURRENT_H_
