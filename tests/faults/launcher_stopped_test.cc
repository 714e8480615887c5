// SPDX-License-Identifier: Apache-2.0
// A launcher that stands still: the program goes on, what does not fit is counted, and afterwards all is as before.
#include <gmock/gmock.h>
#include <signal.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(StoppedLauncher, ProgramGoesOnAndDropsAreCounted) {
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
  ASSERT_NE(result.profile, nullptr) << result.AllSaid();
  int64_t dropped = 0;
  for (const auto& [cause, count] : result.summary["records"]["dropped"].items()) dropped += count.get<int64_t>();
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(result.profile->Count("write") + dropped, 600000);
  EXPECT_TRUE(result.profile->HasWarning("records lost"));
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
}

}  // namespace
}  // namespace tbprof::integration
