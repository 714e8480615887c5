// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the simulated driver calls, by their exported names (driver.def). driver_entry.cc puts the exported
// functions before them.
#ifndef TBPROF_TESTS_SIM_DRIVER_H_
#define TBPROF_TESTS_SIM_DRIVER_H_

#include "tests/sim/engine.h"

#define SIM_TRY(expression)                                                     \
  do {                                                                          \
    if (const CUresult sim_result = (expression); sim_result != CUDA_SUCCESS) { \
      return sim_result;                                                        \
    }                                                                           \
  } while (false)

namespace tbprof::sim {

// cuda.h renames these plain names, which are calls of their own here.
#undef cuGetProcAddress
#undef cuEventElapsedTime
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

// A class, because a namespace would find the exported functions as well: their arguments are of the global namespace.
struct Driver {
#define SIM_DRIVER(symbol, base, version, parameters, arguments) static CUresult symbol parameters;
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  static CUresult symbol parameters;
#include "tests/sim/driver.def"
};

}  // namespace tbprof::sim

#endif  // TBPROF_TESTS_SIM_DRIVER_H_
