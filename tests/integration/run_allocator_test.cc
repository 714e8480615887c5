// SPDX-License-Identifier: Apache-2.0
// Totals, live bytes, samples by call site, large blocks.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "harness.h"
#include "writer/spool/spool.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kMiB = 1 << 20;

nlohmann::json AllocatorOf(const RunResult& result) { return result.summary["processes"][0]["allocator"]; }

TEST(Allocator, Totals_AreExact) {
  // Allocations of libc and of the process's start are the same in both runs.
  const Pair none = RunBoth(Program("allocations"), {"0"});
  ASSERT_TRUE(none.Same());
  const Pair some = RunBoth(Program("allocations"), {"1000"});
  ASSERT_TRUE(some.Same());
  const nlohmann::json before = AllocatorOf(none.profiled), after = AllocatorOf(some.profiled);
  // Eight allocations per turn; realloc counts as an allocation and a free. At the end four, and printf's buffer.
  EXPECT_EQ(after["allocations"].get<int64_t>() - before["allocations"].get<int64_t>(), 8 * 1000 + 4 + 1);
  EXPECT_EQ(after["frees"].get<int64_t>() - before["frees"].get<int64_t>(), 8 * 1000 + 4);
  EXPECT_LT(after["live_bytes"].get<int64_t>() - before["live_bytes"].get<int64_t>(), 8192);
}

TEST(Allocator, Samples_GiveLiveAndPeakBytes) {
  const Pair pair = RunBoth(Program("heap"));
  ASSERT_TRUE(pair.Same());
  const nlohmann::json totals = AllocatorOf(pair.profiled);
  EXPECT_NEAR(totals["allocated_bytes"].get<double>() / kMiB, 144, 144 * 0.05);
  EXPECT_NEAR(totals["peak_bytes"].get<double>() / kMiB, 48, 48 * 0.05);
  EXPECT_NEAR(totals["live_bytes"].get<double>() / kMiB, 16, 16 * 0.05);
  // One sample per 512 KiB: 192 samples of 96 MiB. Five standard deviations are 36 %.
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
    if (event.line != "_counters_" || event.name != "heap live bytes") continue;
    for (const auto& [name, value] : event.stats) highest = std::max(highest, strtod(value.c_str(), nullptr));
  }
  EXPECT_GT(highest / kMiB, 14);
  EXPECT_LT(highest / kMiB, 51);
}

// Whether the launcher has written such a frame to the main file of a spool so far.
bool HasFrame(const std::string& path, FrameType type) {
  const auto reader = SpoolReader::Open(path);
  Frame frame;
  while (reader.ok() && (*reader)->Next(&frame)) {
    if (frame.type == type) return true;
  }
  return false;
}

TEST(Allocator, SpoolGrowsTooFast_FewerSamplesStayRight) {
  RunOptions options;
  options.tbprof = {"--spool-rate=30MiB", "--keep-spool"};
  const auto running = StartUnderTbprof({Program("churn")}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  const auto spool = [&] {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(running->logdir() + "/.tbprof", none)) {
      if (entry.path().extension() == ".spool") return entry.path().string();
    }
    return std::string();
  };
  bool adapted = false;
  for (int i = 0; i < 2400 && !adapted; ++i) {
    usleep(50'000);
    adapted = HasFrame(spool(), FrameType::kSampling);
  }
  EXPECT_TRUE(adapted);
  // Continues, so that there are also samples with the new distance.
  usleep(300'000);
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const double allocated = static_cast<double>(result.Fact("blocks")) * (32 << 10);
  double estimated = 0;
  for (const auto& site : result.summary["allocation_sites"]) estimated += site["bytes_estimate"].get<double>();
  // There are about fifty samples after the change, and more before it: 30 % are five standard deviations. If the two
  // distances were mixed up, the estimate would be wrong by a factor of 8 or more.
  EXPECT_NEAR(estimated / allocated, 1, 0.3);
  EXPECT_NE(result.summary["notes"].dump().find("down to one sample per"), std::string::npos)
      << result.summary["notes"].dump();
}

TEST(Allocator, LargeBlocks_AreEvents) {
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

TEST(Allocator, ProgramAtAFixedAddress_HasNoAllocatorOfItsOwn) {
  const Pair pair = RunBoth(Program("fixed_address"));
  ASSERT_TRUE(pair.Same());
  EXPECT_GE(AllocatorOf(pair.profiled)["allocations"], 1000);
  EXPECT_EQ(pair.profiled.summary["processes"][0]["state"], "recorded") << pair.profiled.summary["processes"];
}

// The records agree with the counters, which other code maintains.
void ExpectAllThere(const nlohmann::json& process) {
  const nlohmann::json& exact = process["exact_heap"];
  const nlohmann::json& counted = process["allocator"];
  ASSERT_TRUE(exact.is_object()) << process;
  EXPECT_EQ(exact["allocations"], counted["allocations"]);
  EXPECT_EQ(exact["releases"], counted["frees"]);
  EXPECT_EQ(exact["not_followed"], 0);
}

#if defined(__x86_64__)
// Counts and records stay right if a signal handler allocates between any two instructions of a hook.
TEST(Allocator, HandlerAllocatesAtAnyInstruction_IsCounted) {
  for (const bool exact : {false, true}) {
    SCOPED_TRACE(exact ? "exact" : "default");
    RunOptions options;
    if (exact) options.tbprof = {"--malloc=exact"};
    const RunResult none = RunUnderTbprof({Program("stepped_blocks"), "0"}, options);
    const RunResult result = RunUnderTbprof({Program("stepped_blocks"), "600"}, options);
    ASSERT_EQ(result.code(), 0) << result.AllPrinted();
    EXPECT_GT(result.Fact("steps"), 30u);
    const nlohmann::json process = result.summary["processes"][0];
    const nlohmann::json counted = process["allocator"], without = none.summary["processes"][0]["allocator"];
    EXPECT_EQ(counted["allocations"].get<uint64_t>() - without["allocations"].get<uint64_t>(), result.Fact("pairs"));
    EXPECT_EQ(counted["frees"].get<uint64_t>() - without["frees"].get<uint64_t>(), result.Fact("pairs"));
    EXPECT_EQ(counted["live_bytes"], without["live_bytes"]);
    if (exact) ExpectAllThere(process);
  }
}
#endif

class ExactAllocator : public testing::TestWithParam<const char*> {
 protected:
  ExactAllocator() { options_.tbprof = {"--malloc=exact", std::string("--malloc-stamp-every=") + GetParam()}; }

  static nlohmann::json SiteOf(const nlohmann::json& process, const std::string& place) {
    for (const auto& site : process["exact_heap"]["sites"]) {
      if (site["call_site"] == place) return site;
    }
    ADD_FAILURE() << "no " << place << " in " << process["exact_heap"];
    return nlohmann::json::object();
  }

  RunOptions options_;
};

TEST_P(ExactAllocator, EachFunction_BlocksAreRecorded) {
  const Pair pair = RunBoth({Program("allocations"), "1000"}, options_);
  ASSERT_TRUE(pair.Same());
  const nlohmann::json process = pair.profiled.summary["processes"][0];
  ExpectAllThere(process);
  EXPECT_EQ(process["exact_heap"]["live_bytes"], process["allocator"]["live_bytes"]);
  EXPECT_EQ(process["exact_heap"]["ambiguous"], 0);
  EXPECT_GE(process["exact_heap"]["temporary"], 7000) << "each but realloc's";
}

TEST_P(ExactAllocator, LiveAndPeakBlocks_AreKnownByPlace) {
  for (const bool killed : {false, true}) {
    SCOPED_TRACE(killed);
    const std::string end = killed ? "kill" : "return";
    const Pair pair = RunBoth({Program("blocks"), end}, options_);
    ASSERT_TRUE(pair.Same());
    ASSERT_THAT(pair.profiled.summary["processes"], SizeIs(2));
    const nlohmann::json process = pair.profiled.summary["processes"][0];
    ExpectAllThere(process);
    const nlohmann::json keep = SiteOf(process, SiteAt("Keep", "blocks.c", "keep"));
    EXPECT_EQ(keep["calls"], 1000);
    EXPECT_EQ(keep["live_blocks"], 1000);
    EXPECT_EQ(keep["temporary"], 0);
    EXPECT_GE(keep["peak_bytes"], 1'000'000);
    EXPECT_EQ(keep["peak_bytes"], keep["live_bytes"]);
    const nlohmann::json peak = SiteOf(process, SiteAt("Peak", "blocks.c", "peak"));
    EXPECT_EQ(peak["live_blocks"], 0);
    EXPECT_GE(peak["peak_bytes"], 10'000'000);
    const nlohmann::json temporary = SiteOf(process, SiteAt("Temporary", "blocks.c", "temporary"));
    EXPECT_EQ(temporary["calls"], 20'000);
    EXPECT_EQ(temporary["temporary"], 20'000);
    EXPECT_EQ(temporary["peak_bytes"], 0);
    // In any order of the two threads' calls, none of these blocks is live at the end.
    const nlohmann::json handed = SiteOf(process, SiteAt("HandOver", "blocks.c", "handed"));
    EXPECT_EQ(handed["calls"], 5'000);
    EXPECT_EQ(handed["live_blocks"], 0);
    EXPECT_EQ(handed["live_bytes"], 0);
    if (GetParam() == std::string("1")) {
      EXPECT_EQ(process["exact_heap"]["ambiguous"], 0);
    }
    EXPECT_GE(process["exact_heap"]["peak_bytes"], 11'000'000);
    EXPECT_LT(process["exact_heap"]["peak_bytes"], 11'500'000);
    EXPECT_TRUE(pair.profiled.Printed("each block")) << pair.profiled.AllPrinted();
    EXPECT_TRUE(pair.profiled.Printed("Peak (blocks.c:")) << pair.profiled.AllPrinted();

    const nlohmann::json child = pair.profiled.summary["processes"][1];
    ExpectAllThere(child);
    EXPECT_EQ(child["exact_heap"]["releases_of_earlier_blocks"], 1000) << "the parent's, which it has inherited";
    EXPECT_EQ(SiteOf(child, SiteAt("main", "blocks.c", "child"))["live_blocks"], 77);
  }
}
INSTANTIATE_TEST_SUITE_P(Stamps, ExactAllocator, testing::Values("1", "16"));

// pthread_create allocates below a hook, and threads begin in a hook.
TEST(Allocator, Places_AreNotInTbprof) {
  const Pair pair = RunBoth({Program("threads")}, [] {
    RunOptions options;
    options.tbprof = {"--malloc-interval=1"};
    return options;
  }());
  ASSERT_TRUE(pair.Same());
  ASSERT_FALSE(pair.profiled.summary["allocation_sites"].empty());
  bool by_pthread_create = false;
  for (const auto& site : pair.profiled.summary["allocation_sites"]) {
    for (const auto& frame : site["frames"]) {
      const auto text = frame.get<std::string>();
      by_pthread_create |= text.find("pthread_create") != std::string::npos;
      EXPECT_EQ(text.find("tbprof"), std::string::npos) << site;
      EXPECT_EQ(text.find("hooks_"), std::string::npos) << site;
    }
  }
  EXPECT_TRUE(by_pthread_create) << "or the test shows nothing: " << pair.profiled.summary["allocation_sites"];
}

TEST(Allocator, Off_RecordsNothing) {
  RunOptions options;
  options.tbprof = {"--malloc=off"};
  const RunResult result = RunUnderTbprof({Program("heap")}, options);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(result.profile->Count("malloc"), 0);
  EXPECT_TRUE(result.summary["allocation_sites"].empty());
  EXPECT_TRUE(AllocatorOf(result).is_null()) << "nobody counted, which is not 0";
}

}  // namespace
}  // namespace tbprof::integration
