// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/rate_governor.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const RateGovernor::Time kStart{seconds(1000)};

// The thread's CPU time is real and above 0; the clock is the test's.
TEST(RateGovernorTest, MoreThanItsShare_IntervalDoublesUpToASecond) {
  RateGovernor governor(milliseconds(100), /*max_share=*/0);
  governor.Restart(kStart);
  EXPECT_FALSE(governor.Govern(kStart + milliseconds(999)));
  EXPECT_EQ(governor.interval(), milliseconds(100));
  EXPECT_TRUE(governor.Govern(kStart + seconds(1)));
  EXPECT_EQ(governor.interval(), milliseconds(200));
  for (int second = 2; second < 9; ++second) EXPECT_TRUE(governor.Govern(kStart + seconds(second)));
  EXPECT_EQ(governor.interval(), seconds(1));
}

TEST(RateGovernorTest, LessThanItsShareAgain_IntervalIsTheWantedOne) {
  constexpr seconds kLong(1'000'000'000);  // a share of nearly nothing
  RateGovernor governor(milliseconds(100), /*max_share=*/1e-13);
  governor.Restart(kStart);
  for (int second = 1; second < 3; ++second) governor.Govern(kStart + seconds(second));
  EXPECT_EQ(governor.interval(), milliseconds(400));
  for (int i = 1; i < 5; ++i) governor.Govern(kStart + i * kLong);
  EXPECT_EQ(governor.interval(), milliseconds(100));
}

TEST(RateGovernorTest, FarTooMuch_IsLoweredAtOnceIfWanted) {
  RateGovernor governor(milliseconds(4), /*max_share=*/1e-12, /*at_once=*/true);
  governor.Restart(kStart);
  EXPECT_FALSE(governor.Govern(kStart + milliseconds(249)));
  EXPECT_TRUE(governor.Govern(kStart + milliseconds(250)));
  EXPECT_EQ(governor.interval(), milliseconds(64));
}

}  // namespace
}  // namespace tbprof
