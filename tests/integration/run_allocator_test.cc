// SPDX-License-Identifier: Apache-2.0
// Totals, live bytes, samples by call site, large blocks.
#include <gmock/gmock.h>

#include <cmath>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kMiB = 1 << 20;

nlohmann::json AllocatorOf(const RunResult& result) { return result.summary["processes"][0]["allocator"]; }

TEST(Allocator, TotalsAreExact) {
  // What libc and the start of the process add is the same in both.
  const Pair none = RunBoth(Program("allocations"), {"0"});
  ASSERT_TRUE(none.Same());
  const Pair some = RunBoth(Program("allocations"), {"1000"});
  ASSERT_TRUE(some.Same());
  const nlohmann::json before = AllocatorOf(none.profiled), after = AllocatorOf(some.profiled);
  // Per turn: eight allocations, realloc among them as one and as a free. At the end four, and printf's buffer.
  EXPECT_EQ(after["allocations"].get<int64_t>() - before["allocations"].get<int64_t>(), 8 * 1000 + 4 + 1);
  EXPECT_EQ(after["frees"].get<int64_t>() - before["frees"].get<int64_t>(), 8 * 1000 + 4);
  EXPECT_LT(after["live_bytes"].get<int64_t>() - before["live_bytes"].get<int64_t>(), 8192);
}

TEST(Allocator, SamplesLiveAndPeakBytes) {
  const Pair pair = RunBoth(Program("heap"));
  ASSERT_TRUE(pair.Same());
  const nlohmann::json totals = AllocatorOf(pair.profiled);
  EXPECT_NEAR(totals["allocated_bytes"].get<double>() / kMiB, 144, 144 * 0.05);
  EXPECT_NEAR(totals["peak_bytes"].get<double>() / kMiB, 48, 48 * 0.05);
  EXPECT_NEAR(totals["live_bytes"].get<double>() / kMiB, 16, 16 * 0.05);
  // 512 KiB between samples: 192 of 96 MiB. Five standard deviations are 36 %.
  double fill = 0, other = 0, all = 0;
  bool by_line = false;
  for (const auto& site : pair.profiled.summary["allocation_sites"]) {
    const double bytes = site["bytes_estimate"];
    all += bytes;
    std::string frames;
    for (const auto& frame : site["frames"]) frames += frame.get<std::string>() + "\n";
    if (frames.find("store::Shelf::Fill(") != std::string::npos) {
      fill += bytes;
      by_line |= frames.find("(heap.cc:" + std::to_string(LineOf("heap.cc", "fill")) + ")") != std::string::npos;
    }
    if (frames.find("store::Shelf::FillOther(") != std::string::npos) other += bytes;
  }
  EXPECT_NEAR(fill / kMiB, 96, 36);
  EXPECT_NEAR(other / kMiB, 32, 21);
  EXPECT_NEAR(all / kMiB, 144, 45);
  EXPECT_TRUE(by_line);
  // The counter track rises to the peak.
  double highest = 0;
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.line != "_counters_") continue;
    for (const auto& [name, value] : event.stats) highest = std::max(highest, strtod(value.c_str(), nullptr));
  }
  EXPECT_GT(highest / kMiB, 14);
  EXPECT_LT(highest / kMiB, 51);
}

TEST(Allocator, LargeBlocksAreEvents) {
  const RunResult result = RunUnderTbprof({Program("heap")});
  ASSERT_NE(result.profile, nullptr);
  std::vector<Event> large;
  for (const Event& event : result.profile->Named("malloc", "main")) {
    if (event.Number("bytes") == 16 * kMiB) large.push_back(event);
  }
  ASSERT_THAT(large, SizeIs(1));
  EXPECT_EQ(large[0].Stat("call_site"), SiteAt("main", "heap.cc", "large"));
  EXPECT_EQ(strtoull(large[0].Stat("object").c_str(), nullptr, 16), result.Fact("large"));
  int frees = 0;
  for (const Event& event : result.profile->Named("free", "main"))
    frees += event.Stat("object") == large[0].Stat("object");
  EXPECT_EQ(frees, 1);
}

TEST(Allocator, StubOfAProgramAtAFixedAddressIsNoAllocatorOfItsOwn) {
  const Pair pair = RunBoth(Program("fixed_address"));
  ASSERT_TRUE(pair.Same());
  EXPECT_GE(AllocatorOf(pair.profiled)["allocations"], 1000);
  EXPECT_EQ(pair.profiled.summary["processes"][0]["state"], "recorded") << pair.profiled.summary["processes"];
}

TEST(Allocator, OffMeansOff) {
  RunOptions options;
  options.tbprof = {"--malloc=off"};
  const RunResult result = RunUnderTbprof({Program("heap")}, options);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(result.profile->Count("malloc"), 0);
  EXPECT_TRUE(result.summary["allocation_sites"].empty());
  EXPECT_EQ(AllocatorOf(result)["allocations"], 0);
}

}  // namespace
}  // namespace tbprof::integration
