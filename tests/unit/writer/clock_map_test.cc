// SPDX-License-Identifier: Apache-2.0
//
// Ticks to time: exact at the pairs, linear between them, monotone everywhere, defined for any input.
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "writer/spool/clock_map.h"

namespace tbprof {
namespace {

constexpr uint64_t kUnix = 1'700'000'000'000'000'000;

TEST(ClockMap, Finish_NoPair_Fails) {
  ClockMap map;
  EXPECT_FALSE(map.Finish());
}

TEST(ClockMap, OnePair_ATickIsANanosecond) {
  ClockMap map;
  map.Add({1000, 77, kUnix});
  ASSERT_TRUE(map.Finish());
  map.SetOrigin(1000);
  EXPECT_EQ(map.ToPs(1000), 0);
  EXPECT_EQ(map.ToPs(1001), 1000);
  EXPECT_EQ(map.ToPs(999), -1000);
  EXPECT_EQ(map.UnixNs(1500), kUnix + 500);
  EXPECT_EQ(map.breaks(), 0u);
}

TEST(ClockMap, CounterOfThreeGigahertz_IsConverted) {
  ClockMap map;
  // 3 ticks per nanosecond, a pair each second.
  for (uint64_t s = 0; s <= 100; ++s)
    map.Add({5'000 + s * 3'000'000'000, 900 + s * 1'000'000'000, kUnix + s * 1'000'000'000});
  ASSERT_TRUE(map.Finish());
  EXPECT_NEAR(map.ns_per_tick(), 1.0 / 3, 1e-12);
  map.SetOrigin(5'000 + 10 * uint64_t{3'000'000'000});
  EXPECT_EQ(map.ToPs(5'000 + 11 * uint64_t{3'000'000'000}), 1'000'000'000'000);
  EXPECT_EQ(map.ToPs(5'000 + 9 * uint64_t{3'000'000'000}), -1'000'000'000'000);
  EXPECT_EQ(map.ToPs(5'000 + 200 * uint64_t{3'000'000'000}), 190'000'000'000'000) << "behind the last pair";
  EXPECT_EQ(map.ToPs(5'000), -10'000'000'000'000);
  EXPECT_EQ(map.DurationPs(3'000'000), 1'000'000'000);
  EXPECT_EQ(map.breaks(), 0u);
}

TEST(ClockMap, DriftBetweenPairs_IsFollowed) {
  ClockMap map;
  // The counter runs 20 ppm fast in the first half and 20 ppm slow in the second.
  uint64_t ticks = 0;
  std::vector<ClockFact> pairs;
  for (uint64_t s = 0; s <= 20; ++s) {
    pairs.push_back({1 + ticks, 1 + s * 1'000'000'000, kUnix + s * 1'000'000'000});
    ticks += s < 10 ? 1'000'020'000 : 999'980'000;
  }
  for (const ClockFact& pair : pairs) map.Add(pair);
  ASSERT_TRUE(map.Finish());
  map.SetOrigin(1);
  for (const ClockFact& pair : pairs) {
    EXPECT_NEAR(static_cast<double>(map.ToPs(pair.ticks)), static_cast<double>(pair.monotonic_ns - 1) * 1000, 2000)
        << pair.ticks;
  }
  EXPECT_NEAR(static_cast<double>(map.ToPs(1 + 500'010'000)), 5e11, 2000);
  EXPECT_EQ(map.breaks(), 0u) << "20 us in a second are drift, not a break";
}

TEST(ClockMap, Break_IsCountedAndLimitedToItsInterval) {
  ClockMap map;
  // A suspend: the counter stands still for 500 ms between the fifth and the sixth second.
  for (uint64_t s = 0; s <= 1000; ++s) {
    const uint64_t ns = 1 + s * 1'000'000'000;
    map.Add({ns - (s > 5 ? 500'000'000 : 0), ns, kUnix + ns});
  }
  ASSERT_TRUE(map.Finish());
  map.SetOrigin(1);
  EXPECT_EQ(map.breaks(), 1u);
  EXPECT_NEAR(static_cast<double>(map.ToPs(1 + 3'000'000'000)), 3e12, 1e6) << "before it: as it was";
  EXPECT_NEAR(static_cast<double>(map.ToPs(1 + 900'000'000'000 - 500'000'000)), 9e14, 1e9) << "behind it: as it is";
}

TEST(ClockMap, WallClockThatIsSet_LeavesDurations) {
  constexpr uint64_t kSecond = 1'000'000'000;
  for (const int64_t step : {int64_t{3600}, int64_t{-3600}}) {
    ClockMap map;
    for (uint64_t s = 0; s <= 20; ++s) {
      map.Add({1 + s * kSecond, 77 + s * kSecond,
               kUnix + s * kSecond + (s < 10 ? 0 : static_cast<uint64_t>(step * 1'000'000'000))});
    }
    ASSERT_TRUE(map.Finish());
    map.SetOrigin(1);
    EXPECT_EQ(map.UnixNs(1 + 5 * kSecond + 7), kUnix + 5 * kSecond + 7);
    EXPECT_EQ(map.UnixNs(1 + 15 * kSecond + 7), kUnix + 15 * kSecond + 7 + static_cast<uint64_t>(step * 1'000'000'000));
    EXPECT_EQ(map.UnixNs(1 + 30 * kSecond), kUnix + 30 * kSecond + static_cast<uint64_t>(step * 1'000'000'000));
    EXPECT_EQ(map.UnixNs(0), kUnix - 1);
    // Lengths of time do not depend on it.
    EXPECT_EQ(map.ToPs(1 + 20 * kSecond), 20'000'000'000'000);
    EXPECT_EQ(map.breaks(), 0u);
  }
}

TEST(ClockMap, PairsThatRunBackwards_AreLeftOut) {
  ClockMap map;
  map.Add({1000, 1000, kUnix});
  map.Add({900, 2000, kUnix});
  map.Add({1000, 2000, kUnix});
  map.Add({2000, 900, kUnix});
  map.Add({2000, 1000, kUnix});
  map.Add({3000, 3000, kUnix});
  ASSERT_TRUE(map.Finish());
  EXPECT_DOUBLE_EQ(map.ns_per_tick(), 1.0);
}

// Rates that no counter has: what divides by the rate must stay defined, and the profile reports a break.
TEST(ClockMap, RateThatNoCounterHas_IsLimitedAndABreak) {
  ClockMap fast;
  fast.Add({1, 1, kUnix});
  fast.Add({uint64_t{1} << 62, 2'000'000, kUnix});
  ASSERT_TRUE(fast.Finish());
  EXPECT_DOUBLE_EQ(fast.ns_per_tick(), 1e-3);
  EXPECT_EQ(fast.Ticks(1e9), 1'000'000'000'000u);
  EXPECT_EQ(fast.Ticks(1e19), 9'000'000'000'000'000'000u);
  EXPECT_EQ(fast.breaks(), 1u);
  ClockMap slow;
  slow.Add({1, 1, kUnix});
  slow.Add({2, uint64_t{1} << 62, kUnix});
  ASSERT_TRUE(slow.Finish());
  EXPECT_DOUBLE_EQ(slow.ns_per_tick(), 1e6);
  EXPECT_EQ(slow.Ticks(1e9), 1000u);
  EXPECT_EQ(slow.breaks(), 1u);
}

TEST(ClockMap, RandomPairsAndTicks_AreDefinedAndMonotone) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    ClockMap map;
    const int shift = static_cast<int>(random() % 64);
    for (uint64_t i = 0, n = 1 + random() % 6; i < n; ++i)
      map.Add({random() >> shift, random() >> (random() % 64), random()});
    ASSERT_TRUE(map.Finish());
    map.SetOrigin(random() >> shift);
    std::vector<uint64_t> ticks = {0, 1, UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63, (uint64_t{1} << 63) - 1};
    for (int i = 0; i < 30; ++i) ticks.push_back(random() >> (random() % 64));
    std::sort(ticks.begin(), ticks.end());
    int64_t before = std::numeric_limits<int64_t>::min();
    for (const uint64_t at : ticks) {
      const int64_t ps = map.ToPs(at);
      EXPECT_GE(ps, before) << round << " " << at;
      EXPECT_LE(ps, 9'000'000'000'000'000'000);
      before = ps;
      EXPECT_GE(map.DurationPs(at), 0) << round << " " << at;
      map.UnixNs(at);
    }
  }
}

}  // namespace
}  // namespace tbprof
