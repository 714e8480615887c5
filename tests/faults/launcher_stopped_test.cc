// SPDX-License-Identifier: Apache-2.0
// A launcher that stands still: the program goes on, what does not fit is counted, and afterwards all is as before.
#include <gmock/gmock.h>
#include <signal.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(StoppedLauncher, Program_ContinuesAndDropsAreCounted) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--max-profile-size=1GiB", "--buffer-size=4MiB"};
  const auto running = StartUnderTbprof({Program("records_on_command"), "300000"}, options);
  ASSERT_GT(running->WaitForNumber("pid"), 0);
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  running->Signal(SIGSTOP);
  // Its records are more than fit by far, and it comes to their end without the launcher.
  kill(target, SIGUSR2);
  ASSERT_TRUE(running->WaitForFact("done 1", 60)) << "it waits for the launcher";
  running->Signal(SIGCONT);
  kill(target, SIGUSR2);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  int64_t dropped = 0;
  for (const auto& [cause, count] : result.summary["records"]["dropped"].items()) dropped += count.get<int64_t>();
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(result.profile->Count("write") + dropped, 600000);
  EXPECT_TRUE(result.profile->HasWarning("records lost"));
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
}

// A table of blocks that lacks records is no table: a block whose release is missing would seem to be live.
TEST(StoppedLauncher, TableOfBlocks_IsMarkedIncomplete) {
  constexpr int64_t kBlocks = 500'000;
  RunOptions options;
  options.tbprof = {"--malloc=exact", "--buffer-size=4MiB", "--max-profile-size=1GiB"};
  const auto running = StartUnderTbprof({Program("blocks_on_command"), std::to_string(kBlocks)}, options);
  ASSERT_GT(running->WaitForNumber("pid"), 0);
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  running->Signal(SIGSTOP);
  kill(target, SIGUSR2);
  ASSERT_TRUE(running->WaitForFact("done 1", 60)) << "it waits for the launcher";
  running->Signal(SIGCONT);
  kill(target, SIGUSR2);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(result.summary["complete"], false);
  const nlohmann::json process = result.summary["processes"][0], exact = process["exact_heap"];
  EXPECT_EQ(exact["complete"], false);
  EXPECT_GT(exact["lost_at_least"], 0);
  for (const char* figure : {"live_blocks", "live_bytes", "peak_bytes", "temporary"}) {
    EXPECT_TRUE(exact[figure].is_null()) << figure << " cannot be known: " << exact[figure];
    for (const auto& site : exact["sites"]) EXPECT_TRUE(!site.contains(figure) || site[figure].is_null()) << site;
  }
  // The counters of the threads lose nothing: what is missing is known.
  EXPECT_GE(process["allocator"]["allocations"], kBlocks);
  EXPECT_LT(process["allocator"]["live_bytes"], 1'000'000);
  EXPECT_EQ(
      exact["allocations"].get<int64_t>() + exact["releases"].get<int64_t>() + exact["lost_at_least"].get<int64_t>(),
      process["allocator"]["allocations"].get<int64_t>() + process["allocator"]["frees"].get<int64_t>());
  EXPECT_TRUE(result.Printed("each block  incomplete")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("table of blocks")) << "the profile has it, too";
  // Nor does the curve of live bytes rise with what was lost.
  for (const Event& event : result.profile->events()) {
    if (event.line != "_counters_" || event.name != "heap live bytes") continue;
    for (const auto& [name, value] : event.stats) EXPECT_LT(strtod(value.c_str(), nullptr), 2e6) << event;
  }
}

}  // namespace
}  // namespace tbprof::integration
