// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/full_detail.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tbprof {
namespace {

// Events of one byte each at these times. Returns how many are in the part.
uint64_t ShrinkTo(uint64_t most, const std::vector<uint64_t>& times, FullDetail* detail) {
  detail->ShrinkTo(most, [&](const auto& add) {
    for (const uint64_t time : times) add(time, 1);
  });
  uint64_t in_part = 0;
  for (const uint64_t time : times) in_part += detail->Contains(time) ? 1 : 0;
  return in_part;
}

TEST(FullDetail, WithoutAWindow_ContainsNothing) {
  const FullDetail detail;
  EXPECT_FALSE(detail.Contains(0));
  EXPECT_FALSE(detail.Contains(UINT64_MAX));
}

TEST(FullDetail, WhatFits_StaysWhole) {
  FullDetail detail;
  detail.Begin(1000, 4000, 3000);
  EXPECT_EQ(ShrinkTo(3, {1000, 3000, 4000}, &detail), 3u);
  EXPECT_FALSE(detail.shrunk());
  EXPECT_LE(detail.start(), 1000u);
  EXPECT_GE(detail.end(), 4000u);
}

TEST(FullDetail, EvenEvents_PartAroundTheMiddle) {
  FullDetail detail;
  detail.Begin(1'000'000, 4'000'000, 3'000'000);
  std::vector<uint64_t> times;
  for (uint64_t at = 1'000'000; at < 4'000'000; at += 10) times.push_back(at);
  const uint64_t kept = ShrinkTo(30'000, times, &detail);
  EXPECT_TRUE(detail.shrunk());
  EXPECT_LE(kept, 30'000u);
  EXPECT_GE(kept, 29'500u);
  EXPECT_NEAR(static_cast<double>(detail.start()), 2'850'000, 5000);
  EXPECT_NEAR(static_cast<double>(detail.end()), 3'150'000, 5000);
  // What has left the part stays out.
  FullDetail again = detail;
  EXPECT_EQ(ShrinkTo(30'000, times, &again), kept);
  EXPECT_EQ(again.start(), detail.start());
}

// A window of days with a burst of a second: the first division of the time is much too coarse.
TEST(FullDetail, BurstInALongWindow_IsDivided) {
  constexpr uint64_t kDay = 86'400'000'000'000;
  FullDetail detail;
  detail.Begin(0, 3 * kDay, 2 * kDay);
  std::mt19937_64 random(3);
  std::vector<uint64_t> times;
  for (int i = 0; i < 50'000; ++i) times.push_back(2 * kDay + random() % 1'000'000'000);
  const uint64_t kept = ShrinkTo(10'000, times, &detail);
  EXPECT_LE(kept, 10'000u);
  EXPECT_GE(kept, 8'000u);
}

TEST(FullDetail, AllAtOneTime_LeavesNothing) {
  FullDetail detail;
  detail.Begin(0, 3000, 2000);
  EXPECT_EQ(ShrinkTo(10, std::vector<uint64_t>(100, 2000), &detail), 0u);
}

TEST(FullDetail, AbsurdWindows_AreNoFault) {
  for (const auto& [open, close] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {5, 2}, {0, UINT64_MAX}, {UINT64_MAX - 1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}}) {
    FullDetail detail;
    detail.Begin(open, close, close / 2);
    EXPECT_LE(ShrinkTo(2, {0, open, close, UINT64_MAX, UINT64_MAX / 2}, &detail), 2u);
    EXPECT_LE(detail.start(), detail.end());
  }
}

}  // namespace
}  // namespace tbprof
