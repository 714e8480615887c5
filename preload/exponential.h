// SPDX-License-Identifier: Apache-2.0
//
// Distances between the samples of a Poisson process. Computed without libm, which this library must not call.
//
// Process: target, any thread. A pure function.
#ifndef TBPROF_PRELOAD_EXPONENTIAL_H_
#define TBPROF_PRELOAD_EXPONENTIAL_H_

#include <stdint.h>

namespace tbprof {

inline constexpr int kExponentialBits = 53;

// -ln(u) for u = bits / 2^53, with an error of at most 0.0001; `bits` must be above 0. Uniformly distributed `bits`
// give an exponential distribution of mean 1. The logarithm of the mantissa, in [1, 2), is approximated by a
// polynomial.
inline double ExponentialOf(uint64_t bits) {
  constexpr double kLn2 = 0.6931471805599453;
  const int exponent = 63 - __builtin_clzll(bits);
  const double mantissa = static_cast<double>(bits) / static_cast<double>(uint64_t{1} << exponent);
  const double ln_mantissa =
      -1.7417939 + (2.8212026 + (-1.4699568 + (0.44717955 - 0.056570851 * mantissa) * mantissa) * mantissa) * mantissa;
  return (kExponentialBits - exponent) * kLn2 - ln_mantissa;
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_EXPONENTIAL_H_
