// SPDX-License-Identifier: Apache-2.0
//
// Apart from cuda.h, which declares these functions with their parameters.
namespace {

constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

}  // namespace

#define SIM_UNSIMULATED(name) \
  extern "C" __attribute__((visibility("default"))) int name() { return kNotSupported; }
#include "tests/sim/driver_unsimulated.def"
