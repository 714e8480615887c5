// SPDX-License-Identifier: Apache-2.0
//
// Whether memory grows from step to step, with levels made by hand.
#include "writer/convert/memory_trend.h"

#include <gmock/gmock.h>

#include <optional>
#include <random>
#include <vector>

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;

std::optional<bool> RisesSteadily(const std::vector<int64_t>& floors, int64_t least_bytes) {
  const MemoryTrend trend = TrendOf(floors, least_bytes);
  return trend.known ? std::make_optional(trend.rises) : std::nullopt;
}
std::vector<int64_t> BytesOf(const std::vector<MemoryLevel>& floors) {
  std::vector<int64_t> bytes;
  for (const MemoryLevel& floor : floors) bytes.push_back(floor.bytes);
  return bytes;
}

TEST(FloorsOfSteps, EachStep_HasItsLowestLevel) {
  const std::vector<MemoryLevel> levels = {{5, 1}, {11, 9}, {14, 3}, {20, 8}, {21, 7}, {45, 6}};
  EXPECT_THAT(BytesOf(FloorsOfSteps(levels, {10, 20, 30, 40, 50})), ElementsAre(3, 7, 7, 6))
      << "unchanged from 30 to 40";
  EXPECT_THAT(FloorsOfSteps(levels, {10}), IsEmpty());
}

TEST(FloorsOfSteps, ManySteps_AreOnePerSeveral) {
  std::vector<MemoryLevel> levels;
  std::vector<int64_t> ends;
  for (int64_t i = 0; i <= 1000; ++i) {
    ends.push_back(i * 10);
    levels.push_back({i * 10 + 5, i});
  }
  const std::vector<MemoryLevel> floors = FloorsOfSteps(levels, ends);
  ASSERT_EQ(floors.size(), 40u);
  EXPECT_EQ(floors[1].bytes - floors[0].bytes, 25);
  EXPECT_EQ(floors[1].time_ps - floors[0].time_ps, 250);
}

// Levels are recorded where they change.
TEST(FloorsOfSteps, MemoryThatStopsGrowing_DoesNotGrowToTheEnd) {
  std::vector<MemoryLevel> levels;
  std::vector<int64_t> ends;
  for (int64_t i = 0; i <= 40; ++i) ends.push_back(i * 10);
  for (int64_t i = 0; i < 20; ++i) levels.push_back({i * 10 + 5, i * kMiB});
  const std::vector<int64_t> floors = BytesOf(FloorsOfSteps(levels, ends));
  EXPECT_EQ(floors.size(), 40u);
  EXPECT_FALSE(TrendOf(floors, kMiB).rises);
}

TEST(RisesSteadily, FewSteps_AreNoEvidence) {
  EXPECT_EQ(
      RisesSteadily({1 * kMiB, 2 * kMiB, 3 * kMiB, 4 * kMiB, 5 * kMiB, 6 * kMiB, 7 * kMiB, 8 * kMiB, 9 * kMiB}, 1),
      std::nullopt);
}

TEST(RisesSteadily, Leak_Rises) {
  std::mt19937 random(7);
  std::vector<int64_t> floors;
  for (int64_t i = 0; i < 20; ++i) floors.push_back(500 * kMiB + i * 4 * kMiB + static_cast<int64_t>(random() % kMiB));
  EXPECT_EQ(RisesSteadily(floors, kMiB), true);
  EXPECT_EQ(RisesSteadily(floors, 100 * kMiB), false) << "76 MiB are less than what matters";
}

TEST(RisesSteadily, NoiseAlone_RisesInNoneOf5000) {
  std::mt19937 random(11);
  std::normal_distribution<double> noise(0, 20e6);
  int rises = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    std::vector<int64_t> floors;
    for (int i = 0; i < 10 + turn % 30; ++i) floors.push_back(static_cast<int64_t>(500e6 + noise(random)));
    rises += RisesSteadily(floors, 1).value_or(false) ? 1 : 0;
  }
  EXPECT_EQ(rises, 0);
}

TEST(RisesSteadily, CacheThatFills_DoesNot) {
  std::vector<int64_t> floors;
  for (int64_t i = 0; i < 30; ++i) floors.push_back(std::min<int64_t>(i, 12) * 10 * kMiB);
  EXPECT_EQ(RisesSteadily(floors, kMiB), false);
}

// Full after 50, 70 or 85 % of the time.
TEST(RisesSteadily, CacheThatIsFullLate_DoesNot) {
  for (const int64_t full : {20, 28, 34}) {
    std::vector<int64_t> floors;
    for (int64_t i = 0; i < 40; ++i) floors.push_back(std::min<int64_t>(i, full) * 10 * kMiB);
    EXPECT_EQ(RisesSteadily(floors, kMiB), false) << full;
  }
}

TEST(RisesSteadily, LeakThatBeginsLate_RisesFromThere) {
  for (const int64_t begin : {20, 28}) {
    std::vector<int64_t> floors;
    for (int64_t i = 0; i < 40; ++i) floors.push_back((100 + std::max<int64_t>(i - begin, 0) * 10) * kMiB);
    const MemoryTrend trend = TrendOf(floors, kMiB);
    EXPECT_TRUE(trend.rises) << begin;
    EXPECT_EQ(trend.from, begin == 20 ? 20u : 30u);
  }
}

TEST(RisesSteadily, OneStepUp_IsNoRise) {
  std::vector<int64_t> floors(30, 100 * kMiB);
  for (size_t i = 15; i < floors.size(); ++i) floors[i] = 300 * kMiB;
  EXPECT_EQ(RisesSteadily(floors, kMiB), false);
}

// Three models are trained one after another: memory rises twice, and a little within each.
TEST(RisesSteadily, FewPlateaus_AreNoLeak) {
  std::mt19937 random(5);
  std::vector<int64_t> floors;
  for (int64_t i = 0; i < 36; ++i) {
    floors.push_back((100 + i / 9 * 40) * kMiB + i % 9 * kMiB / 64 + static_cast<int64_t>(random() % 1024));
  }
  EXPECT_EQ(RisesSteadily(floors, kMiB), false);
}

}  // namespace
}  // namespace tbprof
