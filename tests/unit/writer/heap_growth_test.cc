// SPDX-License-Identifier: Apache-2.0
//
// Changes by site and part of a window.
#include "writer/convert/heap_growth.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(HeapGrowth, Between_IsWhatChangedBehindTheBorder) {
  HeapGrowth growth(1000, 1000 + HeapGrowth::kParts * 10);
  growth.Add(0, 1000, 500, 1);
  growth.Add(1, 1005, 70, 1);
  growth.Add(0, 2100, 30, 1);
  growth.Add(0, 2101, -500, -1);
  growth.Add(2, 5000, 4, 1);
  const uint64_t from = growth.BorderAt(2000), to = growth.BorderAt(4000);
  EXPECT_GE(from, 2000u);
  EXPECT_LT(from, 2020u);
  const auto changes = growth.Between(from, to);
  EXPECT_EQ(changes[0].bytes, -470);
  EXPECT_EQ(changes[0].blocks, 0);
  EXPECT_EQ(changes[1].bytes, 0);
  EXPECT_EQ(changes[2].bytes, 0);
  EXPECT_EQ(growth.Between(growth.BorderAt(0), growth.BorderAt(10'000))[2].bytes, 4);
}

TEST(HeapGrowth, ManyChanges_AreKeptByLongerParts) {
  constexpr uint64_t kClose = 1 << 20;
  HeapGrowth growth(0, kClose, /*most_entries=*/1000);
  int64_t all = 0, late = 0;
  for (uint64_t at = 0; at < kClose; at += 64) {
    growth.Add(static_cast<uint32_t>(at / 64 % 50), at, 8, 1);
    all += 8;
  }
  const uint64_t border = growth.BorderAt(kClose / 2);
  EXPECT_LT(border, kClose / 4 * 3);
  int64_t sum = 0;
  for (const auto& change : growth.Between(0, growth.BorderAt(kClose))) sum += change.bytes;
  EXPECT_EQ(sum, all);
  for (const auto& change : growth.Between(border, growth.BorderAt(kClose))) late += change.bytes;
  EXPECT_EQ(late, static_cast<int64_t>((kClose - border) / 64 * 8));
}

}  // namespace
}  // namespace tbprof
