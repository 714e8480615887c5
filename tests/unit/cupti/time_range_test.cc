// SPDX-License-Identifier: Apache-2.0
#include "cupti/time_range.h"

#include <gtest/gtest.h>

namespace tbprof::cupti {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kStart = 1'700'000'000 * kSecond, kBoot = 1000 * kSecond;

TEST(TimeRange, Has_WithoutAReading_EveryTime) {
  const TimeRange range{};
  EXPECT_TRUE(range.Has(0, 0));
  EXPECT_TRUE(range.Has(uint64_t{1} << 63, uint64_t{1} << 63));
}

TEST(TimeRange, Has_FromTheFirstReadingToTheLast_AndAMinuteAround) {
  TimeRange range{};
  range.Add(kBoot, kStart);
  range.Add(kBoot + 500 * kSecond, kStart + 500 * kSecond);
  EXPECT_TRUE(range.Has(kStart, kStart + 500 * kSecond));
  EXPECT_TRUE(range.Has(kStart - 59 * kSecond, kStart + 559 * kSecond));
  EXPECT_FALSE(range.Has(kStart - 61 * kSecond, kStart));
  EXPECT_FALSE(range.Has(kStart, kStart + 561 * kSecond));
  EXPECT_FALSE(range.Has(uint64_t{1} << 63, uint64_t{1} << 63));
}

// Kernels from before the step are decoded after it.
TEST(TimeRange, Has_SystemTimeIsSet_TimesOfBothClocks) {
  for (const int64_t step : {-86400 * int64_t{kSecond}, 86400 * int64_t{kSecond}}) {
    TimeRange range{};
    range.Add(kBoot, kStart);
    range.Add(kBoot + 10 * kSecond, kStart + 10 * kSecond + static_cast<uint64_t>(step));
    EXPECT_TRUE(range.Has(kStart + 9 * kSecond, kStart + 10 * kSecond));
    EXPECT_TRUE(range.Has(kStart + 9 * kSecond + static_cast<uint64_t>(step),
                          kStart + 10 * kSecond + static_cast<uint64_t>(step)));
    EXPECT_FALSE(range.Has(uint64_t{1} << 63, uint64_t{1} << 63));
  }
}

TEST(TimeRange, GiveUp_AnotherClock_EveryTimeForGood) {
  TimeRange range{};
  range.Add(kBoot, kStart);
  range.GiveUp();
  range.Add(kBoot, kStart);
  EXPECT_TRUE(range.Has(1, uint64_t{1} << 63));
}

}  // namespace
}  // namespace tbprof::cupti
