// SPDX-License-Identifier: Apache-2.0
#include "preload/exponential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tbprof {
namespace {

double Of(uint64_t bits) { return -std::log(std::ldexp(static_cast<double>(bits), -kExponentialBits)); }

TEST(Exponential, EachNumber_HasItsLogarithm) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const uint64_t bits = random() >> (11 + i % 50) | 1;
    ASSERT_NEAR(ExponentialOf(bits), Of(bits), 1e-4) << bits;
  }
  for (int exponent = 0; exponent < kExponentialBits; ++exponent) {
    ASSERT_NEAR(ExponentialOf(uint64_t{1} << exponent), Of(uint64_t{1} << exponent), 1e-4) << exponent;
  }
}

// If samples are farther apart than recorded, each estimate of bytes is too small.
TEST(Exponential, MeanOfEvenNumbers_IsOne) {
  constexpr uint64_t kCount = 1 << 20;
  double sum = 0;
  for (uint64_t i = 0; i < kCount; ++i) sum += ExponentialOf((2 * i + 1) << (kExponentialBits - 21));
  EXPECT_NEAR(sum / kCount, 1, 1e-3);
}

}  // namespace
}  // namespace tbprof
