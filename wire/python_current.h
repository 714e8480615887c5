// SPDX-License-Identifier: Apache-2.0
//
// Under which Python stack blocks of --malloc=exact were allocated: their records have no room for it.
//
// Process: target and converter.
#ifndef TBPROF_WIRE_PYTHON_CURRENT_H_
#define TBPROF_WIRE_PYTHON_CURRENT_H_

#include <stdint.h>

namespace tbprof {

// A PythonStackFlag of a PythonStack record without frames: from here on Allocation records of this thread that are no
// releases were made under its stack with that number, recorded before; 0: under none that is known.
inline constexpr uint16_t kPythonStackCurrent = 4;

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_CURRENT_H_
