// SPDX-License-Identifier: Apache-2.0
//
// Apart from cuda_runtime_api.h, which declares these functions with their parameters.
#include <driver_types.h>

#define SIM_UNSIMULATED(name) \
  extern "C" SIM_RUNTIME_VISIBILITY cudaError_t name() { return cudaErrorNotSupported; }
#include "tests/sim/runtime_unsimulated.def"
