// SPDX-License-Identifier: Apache-2.0
#include "writer/base/saturating.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(AddSaturating, SumOverTheLimit_IsTheLimit) {
  int64_t sum = INT64_MAX - 2;
  AddSaturating(&sum, int64_t{2});
  EXPECT_EQ(sum, INT64_MAX);
  AddSaturating(&sum, int64_t{1});
  EXPECT_EQ(sum, INT64_MAX);
  uint64_t count = UINT64_MAX - 1;
  AddSaturating(&count, uint64_t{5});
  EXPECT_EQ(count, UINT64_MAX);
}

TEST(NanosecondsOf, Time_IsConverted) {
  EXPECT_EQ(NanosecondsOf({0, 0}), 0);
  EXPECT_EQ(NanosecondsOf({1'700'000'000, 999'999'999}), 1'700'000'000'999'999'999);
  EXPECT_EQ(NanosecondsOf({-1, 500'000'000}), -500'000'000);
}

TEST(NanosecondsOf, TimeBeyondTheType_IsItsLimit) {
  EXPECT_EQ(NanosecondsOf({INT64_MAX, 0}), INT64_MAX);
  EXPECT_EQ(NanosecondsOf({INT64_MIN, 999'999'999}), INT64_MIN);
  EXPECT_EQ(NanosecondsOf({9'223'372'036, 854'775'807}), INT64_MAX);
  EXPECT_EQ(NanosecondsOf({9'223'372'036, 854'775'808}), INT64_MAX);
}

}  // namespace
}  // namespace tbprof
