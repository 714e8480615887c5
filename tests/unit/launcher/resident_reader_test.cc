// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/resident_memory.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr char kStatus[] =
    "Name:\tpython3\nVmPeak:\t  999 kB\nVmHWM:\t  300 kB\nVmRSS:\t  290 kB\nRssAnon:\t  200 kB\n"
    "RssFile:\t   80 kB\nRssShmem:\t   10 kB\nVmSwap:\t    4 kB\nThreads:\t1\n";

TEST(ParseResident, Counts_AreBytes) {
  const auto row = ParseResident(kStatus);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->peak_bytes, 300u * 1024);
  EXPECT_EQ(row->anonymous_bytes, 200u * 1024);
  EXPECT_EQ(row->file_bytes, 80u * 1024);
  EXPECT_EQ(row->shared_bytes, 10u * 1024);
  EXPECT_EQ(row->swapped_bytes, 4u * 1024);
}

TEST(ParseResident, StatusWithoutThem_IsNothing) {
  EXPECT_FALSE(ParseResident("").has_value());
  EXPECT_FALSE(ParseResident("Name:\tzombie\nState:\tZ (zombie)\n").has_value());
}

TEST(ResidentReader, MemoryThatStays_HasOneRow) {
  ResidentReader reader(getpid());
  std::vector<ResidentRow> rows;
  ResidentReader::Time now{};
  for (int i = 0; i < 20; ++i) {
    reader.Take(now, 1 + static_cast<uint64_t>(i), /*whole=*/false, &rows);
    now = reader.next();
  }
  EXPECT_LE(rows.size(), 3u) << "the test itself needs some pages";
  ASSERT_FALSE(rows.empty());
  EXPECT_GE(rows.back().anonymous_bytes, 4096u);
  EXPECT_GT(now.time_since_epoch(), milliseconds(10'000)) << "it looks once a second";
  const size_t before = rows.size();
  reader.Take(now, 77, /*whole=*/true, &rows);
  ASSERT_EQ(rows.size(), before + 1);
  EXPECT_EQ(rows.back().ticks, 77u);
}

TEST(ResidentReader, MemoryThatGrows_HasARowForEachLook) {
  ResidentReader reader(getpid());
  std::vector<ResidentRow> rows;
  std::vector<std::string> kept;
  ResidentReader::Time now{};
  for (int i = 0; i < 20; ++i) {
    kept.emplace_back(8 << 20, 'x');
    reader.Take(now, 1 + static_cast<uint64_t>(i), /*whole=*/false, &rows);
    now = reader.next();
  }
  EXPECT_EQ(rows.size(), 20u);
  EXPECT_GT(rows.back().anonymous_bytes, rows.front().anonymous_bytes + (100u << 20));
  EXPECT_LT(now.time_since_epoch(), milliseconds(3'000));
}

TEST(ResidentReader, ProcessThatIsGone_HasNoRows) {
  ResidentReader reader(0x7fffffff);
  std::vector<ResidentRow> rows;
  reader.Take({}, 1, /*whole=*/true, &rows);
  EXPECT_TRUE(rows.empty());
}

}  // namespace
}  // namespace tbprof
