// SPDX-License-Identifier: Apache-2.0
// Totals of sampled operations.
#include "writer/spool/torch_sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tbprof {
namespace {

constexpr uint16_t kMm = 1, kAdd = 2;

TorchSamplingAt Fact(uint64_t ticks, uint64_t skipped, uint32_t weight, uint32_t flags = 0) {
  return {ticks, {skipped, weight, flags}};
}
constexpr uint32_t Ends(uint32_t number) { return kTorchUnitEnds | number << kTorchClassShift; }

void TakeMany(TorchTotals* totals, uint16_t type, int count, uint64_t from, uint64_t ticks = 10) {
  for (int i = 0; i < count; ++i) totals->Take({type, from + static_cast<uint64_t>(i), ticks, ticks / 2});
}

TEST(TorchTotals, NothingSkipped_TotalsAreTheRecordedOnes) {
  TorchTotals totals({});
  TakeMany(&totals, kMm, 7, 100);
  totals.Finish(0, 1000);
  EXPECT_FALSE(totals.sampled());
  EXPECT_EQ(totals.recorded(), 7u);
  EXPECT_EQ(totals.Of(kMm).calls, 7u);
  EXPECT_EQ(totals.Of(kMm).ticks, 70);
  EXPECT_EQ(totals.Of(kMm).self_ticks, 35);
  EXPECT_EQ(totals.Of(kAdd).calls, 0u);
}

TEST(TorchTotals, TheBeginning_IsNotMultiplied) {
  // All operations up to 1000 are recorded, then one unit in ten.
  TorchTotals totals(
      {Fact(1000, 0, 0, Ends(6)), Fact(2000, 900, 10, Ends(6) | kTorchMidway), Fact(3000, 0, 0, Ends(6))});
  TakeMany(&totals, kAdd, 500, 100);
  TakeMany(&totals, kMm, 100, 2100);
  totals.Finish(0, 10'000);
  EXPECT_EQ(totals.skipped(), 900u);
  EXPECT_EQ(totals.Of(kAdd).calls, 500u);
  EXPECT_EQ(totals.Of(kMm).calls, 1000u);
  EXPECT_EQ(totals.Of(kMm).ticks, 10'000);
  const auto weights = totals.Weights();
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].weight, 1);
  EXPECT_EQ(weights[1].ticks, 2000u);
  EXPECT_EQ(weights[1].weight, 10);
  EXPECT_TRUE(weights[1].midway);
}

TEST(TorchTotals, ClassesOfUnits_ShareTheirOwnSkippedCalls) {
  // By chance, class 12 was recorded more often: 9 in 10 operations of class 6 were skipped, but only 1 in 2 of
  // class 12.
  TorchTotals totals({Fact(1000, 0, 10, Ends(6)), Fact(2000, 0, 0, Ends(6)), Fact(3000, 900, 0, Ends(6)),
                      Fact(4000, 100, 10, Ends(12)), Fact(5000, 0, 0, Ends(12))});
  TakeMany(&totals, kMm, 100, 1100);
  TakeMany(&totals, kAdd, 100, 4100);
  totals.Finish(0, 10'000);
  EXPECT_EQ(totals.Of(kMm).calls, 1000u);
  EXPECT_EQ(totals.Of(kAdd).calls, 200u);
}

TEST(TorchTotals, AClassWithoutARecordedUnit_IsSharedByTheOthers) {
  TorchTotals totals({Fact(1000, 0, 10, Ends(6)), Fact(2000, 0, 0, Ends(6)), Fact(3000, 100, 0, Ends(6)),
                      Fact(4000, 300, 0, Ends(11))});
  TakeMany(&totals, kMm, 100, 1100);
  totals.Finish(0, 10'000);
  EXPECT_EQ(totals.Of(kMm).calls, 500u);
}

TEST(TorchTotals, AllWasSkippedBehindTheBeginning_TheBeginningStandsForIt) {
  TorchTotals totals({Fact(1000, 0, 0, Ends(6)), Fact(9000, 300, 0)});
  TakeMany(&totals, kMm, 100, 100);
  totals.Finish(0, 10'000);
  EXPECT_EQ(totals.Of(kMm).calls, 400u);
}

TEST(TorchTotals, OfAWindow_OnlyWhatIsSkippedInIt) {
  TorchTotals totals({Fact(1000, 0, 0), Fact(2000, 800, 1), Fact(5000, 0, 0), Fact(6000, 400, 1)});
  TakeMany(&totals, kMm, 100, 2500);
  totals.Finish(2000, 5500);
  EXPECT_EQ(totals.skipped(), 200u) << "half of the second pause";
  TorchTotals none({Fact(1000, 0, 0), Fact(2000, 800, 1), Fact(5000, 0, 0), Fact(6000, 400, 1)});
  TakeMany(&none, kMm, 100, 2500);
  none.Finish(2000, 4000);
  EXPECT_FALSE(none.sampled());
}

TEST(TorchTotals, HostileFacts_GiveFiniteTotals) {
  TorchTotals totals({Fact(UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX), Fact(0, UINT64_MAX, UINT32_MAX, UINT32_MAX),
                      Fact(5, UINT64_MAX, 3, Ends(15)), Fact(5, 1, 0)});
  for (const uint64_t start : {uint64_t{0}, uint64_t{5}, UINT64_MAX, uint64_t{7}, uint64_t{3}}) {
    totals.Take({kMm, start, UINT64_MAX, UINT64_MAX});
  }
  totals.Finish(0, UINT64_MAX);
  EXPECT_TRUE(std::isfinite(totals.Of(kMm).ticks));
  for (const auto& weight : totals.Weights()) EXPECT_TRUE(std::isfinite(weight.weight));
}

TEST(SharePercent, OfNearlyAllOrNone_HasADecimal) {
  EXPECT_EQ(SharePercent(0.56), "56 %");
  EXPECT_EQ(SharePercent(0.996), "99.6 %");
  EXPECT_EQ(SharePercent(0.004), "0.4 %");
}

}  // namespace
}  // namespace tbprof
