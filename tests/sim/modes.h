// SPDX-License-Identifier: Apache-2.0
//
// Modes of the simulator that a test sets through the environment (modes.def has the list).
//
//   if (mode::no_device() != 0) return CUDA_ERROR_NO_DEVICE;
//
// A name that is not in the list ends the process: a test with a typing error would otherwise test nothing.
#ifndef TBPROF_TESTS_SIM_MODES_H_
#define TBPROF_TESTS_SIM_MODES_H_

#include <cstdint>

namespace tbprof::sim::mode {

#define SIM_MODE(variable, name, default_value, meaning) int64_t name();
#include "tests/sim/modes.def"

// A number from a variable of its own, e.g. CUDASIM_GPUS.
int64_t Number(const char* variable, int64_t default_value);

}  // namespace tbprof::sim::mode

#endif  // TBPROF_TESTS_SIM_MODES_H_
