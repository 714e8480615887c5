// SPDX-License-Identifier: Apache-2.0
#include "cupti/restarts.h"

#include <gtest/gtest.h>

namespace tbprof::cupti {
namespace {

using Answer = Restarts::Answer;

constexpr uint32_t Windows(uint32_t opened, bool open) { return opened * 2 + (open ? kGpuWindowOpen : 0); }

Restarts Limited() {
  Restarts restarts{};
  for (uint32_t i = 0; i < Restarts::kMost; ++i) EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kRestart);
  EXPECT_TRUE(restarts.MayRecord(Windows(0, false)));
  EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kLimit);
  return restarts;
}

TEST(Restarts, OnInvalidTimes_AfterTheLastRestart_LimitsToWindows) {
  Restarts restarts = Limited();
  EXPECT_FALSE(restarts.MayRecord(Windows(0, false)));
  EXPECT_TRUE(restarts.MayRecord(Windows(1, true)));
  EXPECT_FALSE(restarts.MayRecord(Windows(1, false)));
}

TEST(Restarts, OnInvalidTimes_InAWindow_RestartsAgainAndNeverStopsIt) {
  Restarts restarts = Limited();
  for (uint32_t opened = 1; opened < 4; ++opened) {
    EXPECT_TRUE(restarts.MayRecord(Windows(opened, true)));
    for (uint32_t i = 0; i < Restarts::kMost; ++i) EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kRestart);
    EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kNothing);
    EXPECT_TRUE(restarts.MayRecord(Windows(opened, true)));
    EXPECT_FALSE(restarts.MayRecord(Windows(opened, false)));
  }
}

// The second window overlaps the first, which has used up its restarts.
TEST(Restarts, MayRecord_SecondWindowOpens_HasItsOwnRestarts) {
  Restarts restarts = Limited();
  EXPECT_TRUE(restarts.MayRecord(Windows(1, true)));
  for (uint32_t i = 0; i < Restarts::kMost; ++i) restarts.OnInvalidTimes();
  EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kNothing);
  EXPECT_TRUE(restarts.MayRecord(Windows(2, true)));
  EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kRestart);
}

TEST(Restarts, OnDisarmed_Limited_NextWindowIsLikeTheFirst) {
  Restarts restarts = Limited();
  restarts.OnDisarmed();
  EXPECT_TRUE(restarts.MayRecord(Windows(0, false)));
  EXPECT_EQ(restarts.OnInvalidTimes(), Answer::kRestart);
}

TEST(Restarts, MayRecord_NoInvalidTimes_IsNotLimited) {
  Restarts restarts{};
  for (uint32_t opened = 0; opened < 4; ++opened) {
    EXPECT_TRUE(restarts.MayRecord(Windows(opened, true)));
    EXPECT_TRUE(restarts.MayRecord(Windows(opened, false)));
  }
}

}  // namespace
}  // namespace tbprof::cupti
