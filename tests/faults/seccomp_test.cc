// SPDX-License-Identifier: Apache-2.0
// Filters of system calls: none of ours may end the program, whenever the filter came.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(Seccomp, LaterFilter_NoCallByTbprof) {
  const Pair pair = RunBoth(Program("seccomp_filter"), {"self"}, {"--wait-threshold=0", "--malloc-interval=4096"});
  if (pair.bare.code() == 77) GTEST_SKIP() << "no seccomp here";
  ASSERT_EQ(pair.bare.code(), 0) << pair.bare.err;
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.profile->Count("read"), 1000);
  EXPECT_GE(pair.profiled.profile->Count("usleep"), 100);
  EXPECT_EQ(pair.profiled.summary["threads"], 2);
}

// The kernel would end the process at the first of our calls, before main.
TEST(Seccomp, ProgramUnderAStricterFilter_Runs) {
  for (const char* how : {"kill", "errno"}) {
    const Pair pair = RunBoth(Program("seccomp_filter"), {how, Program("survive"), "2000", "_exit"});
    if (pair.bare.code() == 77) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(pair.bare.code(), 3);
    EXPECT_TRUE(pair.Same()) << how;
    const auto& first = pair.profiled.summary["processes"][0];
    EXPECT_EQ(first["executable"], Program("seccomp_filter")) << "what came before is there";
  }
}

// The launcher has the same filter, so that it is no reason to stay out of the way; the calls then fail.
TEST(Seccomp, FilterAroundEverything_IsReported) {
  RunOptions options;
  options.launcher = {Program("seccomp_filter"), "errno"};
  const RunResult result = RunUnderTbprof({Program("survive"), "2000", "_exit"}, options);
  if (result.code() == 77) GTEST_SKIP() << "no seccomp here";
  // No socket, no session: refused before the command starts.
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Printed("socket")) << result.AllPrinted();
  options.tbprof = {"--on-error=run"};
  const RunResult unprofiled = RunUnderTbprof({Program("survive"), "2000", "_exit"}, options);
  EXPECT_EQ(unprofiled.code(), 3);
  EXPECT_EQ(unprofiled.out, "");
}

}  // namespace
}  // namespace tbprof::integration
