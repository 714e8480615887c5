// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/event_budget.h"

#include <gtest/gtest.h>

#include <random>

namespace tbprof {
namespace {

struct Sized {
  uint64_t length, start;
};

// The events, of one byte each, that a cut to `most` bytes keeps.
std::vector<Sized> Kept(const std::vector<Sized>& events, uint64_t most, LengthCut* cut) {
  LengthHistogram histogram;
  for (const Sized& event : events) histogram.Add(event.length, 1);
  *cut = histogram.CutTo(most, *cut);
  std::vector<Sized> kept;
  for (const Sized& event : events) {
    if (cut->Keeps(event.length, event.start)) kept.push_back(event);
  }
  return kept;
}

TEST(EventBudget, EventsWithinTheBudget_AreAllKept) {
  LengthCut cut;
  EXPECT_EQ(Kept({{0, 1}, {5, 2}, {1'000'000, 3}}, 3, &cut).size(), 3u);
  EXPECT_FALSE(cut.cuts());
  EXPECT_TRUE(cut.Keeps(0, 0));
}

TEST(EventBudget, EventsOfManyLengths_LongestAreKept) {
  std::vector<Sized> events;
  for (uint64_t i = 0; i < 100'000; ++i) events.push_back({100 + i * 17, i * 31});
  LengthCut cut;
  const std::vector<Sized> kept = Kept(events, 10'000, &cut);
  EXPECT_LE(kept.size(), 10'000u);
  EXPECT_GE(kept.size(), 9'000u);
  EXPECT_TRUE(cut.cuts());
  EXPECT_EQ(cut.shortest(), cut.all_from()) << "no length is so frequent that a part of it had to be kept";
  for (const Sized& event : events) EXPECT_EQ(cut.Keeps(event.length, event.start), event.length >= cut.shortest());
}

TEST(EventBudget, EventsOfOneLength_AnEvenPartIsKept) {
  std::vector<Sized> events;
  for (uint64_t i = 0; i < 100'000; ++i) events.push_back({2000, i * 2500});
  LengthCut cut;
  const std::vector<Sized> kept = Kept(events, 10'000, &cut);
  EXPECT_NEAR(static_cast<double>(kept.size()), 10'000, 200);
  std::vector<int> tenths(10);
  for (const Sized& event : kept) ++tenths[event.start / 25'000'000];
  for (const int count : tenths) EXPECT_NEAR(count, 1000, 150);
  EXPECT_LE(cut.shortest(), 2000u);
  EXPECT_GT(cut.all_from(), 2000u);
}

// A stream is cut repeatedly: all events that a later cut keeps were kept by the earlier cuts.
TEST(EventBudget, RepeatedCuts_KeepSubsetsOfEarlierOnes) {
  std::mt19937_64 random(3);
  LengthCut cut, before;
  std::vector<Sized> events;
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 5000; ++i) {
      const Sized event{i % 10 == 0 ? random() % 100'000 : 3000 + random() % 20, random() >> 20};
      if (cut.Keeps(event.length, event.start)) events.push_back(event);
    }
    before = cut;
    if (events.size() > 8000) events = Kept(events, 6000, &cut);
    for (const Sized& event : events) EXPECT_TRUE(before.Keeps(event.length, event.start));
    EXPECT_LE(events.size(), 8000u);
  }
  EXPECT_GE(events.size(), 5000u);
}

TEST(EventBudget, BudgetOfZeroAndAllLengths_AreRespected) {
  std::vector<Sized> events;
  for (int bit = 0; bit < 64; ++bit) events.push_back({uint64_t{1} << bit, uint64_t{1} << bit});
  LengthCut cut;
  EXPECT_LE(Kept(events, 0, &cut).size(), 1u);
  LengthCut other;
  EXPECT_EQ(Kept(events, 32, &other).size(), 32u);
}

}  // namespace
}  // namespace tbprof
