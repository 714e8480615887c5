// SPDX-License-Identifier: Apache-2.0
// Annotations of programs by NVTX, through its own header.
#include <gmock/gmock.h>
#include <signal.h>

#include <set>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Ranges of a line nest, which the converter's own check verifies for every profile. These tests check the nesting
// order.
bool Contains(const Event& outer, const Event& inner) {
  return outer.line == inner.line && outer.start_ps <= inner.start_ps && inner.end_ps() <= outer.end_ps();
}

TEST(Annotations, RangesMarksDomainsAndPayloads_AreEvents) {
  const Pair pair = RunBoth(Program("annotations"), {"nest"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> steps = profile.Named("iteration");
  ASSERT_THAT(steps, SizeIs(100));
  for (const Event& step : steps) {
    EXPECT_THAT(step.line, HasSubstr("main of nest/"));
    EXPECT_GE(step.milliseconds(), 1.0);
    EXPECT_FALSE(step.Has("detail"));
  }
  const std::vector<Event> fetches = profile.Named("fetch");
  ASSERT_THAT(fetches, SizeIs(100));
  for (size_t i = 0; i < fetches.size(); ++i) {
    EXPECT_TRUE(Contains(steps[i], fetches[i]));
    EXPECT_EQ(fetches[i].Stat("detail"), "library/loading");
    EXPECT_EQ(fetches[i].Stat("payload"), std::to_string(-static_cast<int>(i)));
  }
  EXPECT_THAT(profile.Named("w\u00efde"), SizeIs(100));
  const std::vector<Event> marks = profile.Named("loss");
  ASSERT_THAT(marks, SizeIs(100));
  EXPECT_EQ(marks[99].duration_ps, 0);
  EXPECT_EQ(std::stod(marks[99].Stat("payload value")), 49.5);
  for (const auto& total : pair.profiled.summary["processes"][0]["operations"]) {
    if (total["name"] == "iteration") {
      EXPECT_EQ(total["calls"], 100);
    }
  }
}

TEST(Annotations, StepNames_AreSteps) {
  const Pair pair = RunBoth(Program("annotations"), {"nest"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.summary["steps"]["count"], 100);
  EXPECT_EQ(pair.profiled.summary["steps"]["source"], "annotation `iteration`");
  EXPECT_TRUE(pair.profiled.Printed("100 steps, median 1.")) << pair.profiled.AllPrinted();
  const Pair other = RunBoth(Program("annotations"), {"nest"}, {"--step-marker=^fetch$"});
  ASSERT_TRUE(other.Same());
  EXPECT_EQ(other.profiled.summary["steps"]["source"], "annotation `fetch`");
  // Too few rounds to infer steps: on a busy machine, `nest` would give steps of 2 ms.
  const RunResult none = RunUnderTbprof({Program("annotations"), "loop", "3"}, {.tbprof = {"--step-marker=nothing"}});
  EXPECT_EQ(none.summary["steps"]["source"], "synthetic");
  EXPECT_TRUE(none.profile->HasWarning(
      "no annotation, no kernel and no line that waits or allocates in each turn matches --step-marker=nothing"));
  EXPECT_TRUE(RunTbprof({"run", "--step-marker=[", "--", "true"}).Printed("expected a regular expression"));
}

TEST(Annotations, RangesThatEndOnOtherThreads_AreMatched) {
  const Pair pair = RunBoth(Program("annotations"), {"across"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> requests = profile.Named("request"), answers = profile.Named("answer");
  ASSERT_THAT(requests, SizeIs(5));
  ASSERT_THAT(answers, SizeIs(5));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_GE(requests[i].milliseconds(), 20);
    EXPECT_GE(answers[i].milliseconds(), 25);
    EXPECT_GT(answers[i].end_ps(), requests[i].end_ps()) << "they overlap, and neither is cut";
    EXPECT_NE(requests[i].line, answers[i].line);
  }
  EXPECT_THAT(profile.Named("short"), SizeIs(1));
  const std::vector<Event> open = profile.Named("never ended");
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].Stat("clipped"), "end");
}

TEST(Annotations, UnmatchedEndsAndBeginnings_AreCounted) {
  const Pair pair = RunBoth(Program("annotations"), {"unbalanced"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  ASSERT_THAT(profile.Named("closed"), SizeIs(1));
  EXPECT_FALSE(profile.Named("closed")[0].Has("clipped"));
  const std::vector<Event> open = profile.Named("left open");
  ASSERT_THAT(open, SizeIs(3));
  for (const Event& range : open) EXPECT_EQ(range.Stat("clipped"), "end");
  EXPECT_THAT(pair.profiled.summary["notes"].dump(), HasSubstr("10 ends of ranges (NVTX) have no beginning"));
}

TEST(Annotations, InvalidNames_AreReplaced) {
  const Pair pair = RunBoth(Program("annotations"), {"odd"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(profile.Named(std::string(1024, 'x')), SizeIs(1));
  EXPECT_THAT(profile.Named(R"(bad \xff\xfe utf-8)"), SizeIs(1));
  EXPECT_THAT(profile.Named("call train"), SizeIs(1)) << "TensorBoard takes `train...` for a step";
  EXPECT_THAT(profile.Named("(no name)"), SizeIs(5));
}

TEST(Annotations, KilledProcess_OpenRangesAreClipped) {
  const RunResult result = RunUnderTbprof({Program("annotations"), "killed"});
  EXPECT_EQ(result.signal(), SIGKILL) << result.AllPrinted();
  ASSERT_NE(result.profile, nullptr);
  const std::vector<Event> epochs = result.profile->Named("epoch"), done = result.profile->Named("done");
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_EQ(epochs[0].Stat("clipped"), "end");
  EXPECT_GE(epochs[0].milliseconds(), 5);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_FALSE(done[0].Has("clipped"));
}

TEST(Annotations, MoreNamesThanTheTable_AreAWarning) {
  const Pair pair = RunBoth(Program("annotations"), {"many", "200000"}, {"--max-profile-size=1GiB"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(profile.Named("name 7"), SizeIs(1));
  EXPECT_GE(profile.Named("(more names than are kept)").size(), 200'000u - 65'536u);
  EXPECT_TRUE(profile.HasWarning("were too many or too fast"));
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}

TEST(Annotations, MoreDomainsThanTheTable_AreRecorded) {
  const Pair pair = RunBoth(Program("annotations"), {"domains", "3000"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> last = profile.Named("string 2999");
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_FALSE(last[0].Has("clipped"));
  ASSERT_THAT(profile.Named("string 7"), SizeIs(1));
  EXPECT_EQ(profile.Named("string 7")[0].Stat("detail"), "domain 7");
}

TEST(Annotations, ForkChildren_HaveTheirOwnRanges) {
  const Pair pair = RunBoth(Program("annotations"), {"forks"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(profile.Named("of a child"), SizeIs(4));
  // Each process has its own first domain.
  std::set<std::string> domains;
  for (const Event& mark : profile.Named("in its domain")) domains.insert(mark.Stat("detail"));
  EXPECT_EQ(domains, (std::set<std::string>{"of child 0", "of child 1", "of child 2", "of child 3"}));
  const std::vector<Event> parents = profile.Named("of the parent");
  ASSERT_THAT(parents, SizeIs(1));
  EXPECT_FALSE(parents[0].Has("clipped"));
}

TEST(Annotations, OverBudget_StepsAreKept) {
  const Pair pair = RunBoth(Program("annotations"), {"short"}, {"--max-profile-size=64KiB"});
  ASSERT_TRUE(pair.Same());
  EXPECT_GT(pair.profiled.summary["records"]["over_budget"], 10'000);
  EXPECT_THAT(pair.profiled.profile->Named("iteration"), SizeIs(30));
  // A step of 2 us that an interrupt makes ten times longer is irregular.
  const nlohmann::json& steps = pair.profiled.summary["steps"];
  EXPECT_EQ(steps["count"].get<int>() + steps["irregular"].get<int>(), 30);
}

TEST(Annotations, MoreStepsThanTheirShare_AreCut) {
  const Pair pair = RunBoth(Program("annotations"), {"loop", "200000"}, {"--max-profile-size=64KiB", "--window=all"});
  ASSERT_TRUE(pair.Same());
  const int64_t drawn = pair.profiled.profile->Count("iteration");
  EXPECT_GT(drawn, 100);
  EXPECT_LT(drawn, 64 * 1024 / 24) << "no event counts for less, in the file or in the converter's memory";
  EXPECT_EQ(drawn + pair.profiled.summary["records"]["over_budget"].get<int64_t>(), 200'000);
}

TEST(Annotations, NotTraced_AreNotRecorded) {
  const Pair pair = RunBoth(Program("annotations"), {"nest"}, {"--trace=thread,lock"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("iteration"), IsEmpty());
}

TEST(Annotations, AnotherCollector_IsKept) {
  RunOptions options;
  options.environment = {{"NVTX_INJECTION64_PATH", "/nonexistent/collector.so"}};
  const Pair pair = RunBoth({Program("annotations"), "nest"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("iteration"), IsEmpty());
  EXPECT_TRUE(pair.profiled.profile->HasWarning("/nonexistent/collector.so"));
}

// If LD_PRELOAD was removed, the library that NVTX opens does not record.
TEST(Annotations, NotPreloaded_IsNotRecorded) {
  RunOptions options;
  const RunResult bare = RunBare({Program("annotations"), "nest"}, options);
  const RunResult result =
      RunUnderTbprof({"/usr/bin/env", "-u", "LD_PRELOAD", Program("annotations"), "nest"}, options);
  EXPECT_EQ(result.out, bare.out);
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
