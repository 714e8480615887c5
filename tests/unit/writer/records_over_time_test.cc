// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/records_over_time.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr uint64_t kSecond = 3'000'000'000;  // ticks

double SecondsAt(const RecordsOverTime& over_time, double share, uint64_t from, uint64_t to) {
  return static_cast<double>(over_time.TimeOf(share, from, to)) / static_cast<double>(kSecond);
}

TEST(RecordsOverTime, WithoutRecords_ShareOfTheTime) {
  const RecordsOverTime over_time;
  EXPECT_EQ(over_time.TimeOf(0.5, 1000, 3000), 2000u);
  EXPECT_EQ(over_time.TimeOf(0.5, 3000, 1000), 3000u);
}

TEST(RecordsOverTime, EvenRecords_ShareOfTheTime) {
  RecordsOverTime over_time;
  for (uint64_t i = 0; i < 60'000; ++i) over_time.Add(7 * kSecond + i * kSecond / 100, 50);
  EXPECT_NEAR(SecondsAt(over_time, 0.25, 7 * kSecond, 607 * kSecond), 157, 1);
}

// 10 s of work, then an hour of hardly any.
TEST(RecordsOverTime, IdleTime_DoesNotCount) {
  RecordsOverTime over_time;
  for (uint64_t i = 0; i < 1000; ++i) over_time.Add(kSecond + i * kSecond / 100, 50);
  for (uint64_t i = 0; i < 3600; ++i) over_time.Add((11 + i) * kSecond, 1);
  EXPECT_NEAR(SecondsAt(over_time, 2.0 / 3, kSecond, 3611 * kSecond), 8.1, 1.5);
}

TEST(RecordsOverTime, PartOfTheTime_CountsItsRecordsOnly) {
  RecordsOverTime over_time;
  for (uint64_t i = 0; i < 1000; ++i) over_time.Add(i * kSecond / 10, i < 500 ? 1000 : 1);
  EXPECT_NEAR(SecondsAt(over_time, 0.5, 60 * kSecond, 100 * kSecond), 80, 1);
}

TEST(RecordsOverTime, AbsurdTimes_AreNoFault) {
  RecordsOverTime over_time;
  for (const uint64_t ticks : {uint64_t{5}, UINT64_MAX, uint64_t{0}, UINT64_MAX / 2}) over_time.Add(ticks, UINT32_MAX);
  const uint64_t at = over_time.TimeOf(0.5, 10, UINT64_MAX - 5);
  EXPECT_GE(at, 10u);
  EXPECT_LE(at, UINT64_MAX - 5);
}

}  // namespace
}  // namespace tbprof
