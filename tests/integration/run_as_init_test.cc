// SPDX-License-Identifier: Apache-2.0
// tbprof as process 1 of a container.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

class Init : public testing::Test {
 protected:
  void SetUp() override {
    options_.launcher = {"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
    std::vector<std::string> probe = options_.launcher;
    probe.push_back("/bin/true");
    if (RunBare(probe).code() != 0) GTEST_SKIP() << "no new pid namespace here";
  }
  RunOptions options_;
};

// unshare's only child, as its pid outside of the namespace.
pid_t ChildOf(pid_t pid) {
  const std::string text = ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  return text.empty() ? 0 : std::stoi(text);
}

TEST_F(Init, Status_IsPassedOn) {
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "6"}, options_);
  EXPECT_EQ(result.code(), 6);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("kill -USR1 1")) << result.AllPrinted();
}

TEST_F(Init, SignalOfTheCommand_Is128PlusItsNumber) {
  // The kernel does not end process 1 by a signal that has no handler.
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c", "kill -KILL $$"}, options_);
  EXPECT_EQ(result.code(), 128 + SIGKILL) << result.AllPrinted();
  const RunResult terminated = RunUnderTbprof({"/bin/sh", "-c", "kill -TERM $$"}, options_);
  EXPECT_EQ(terminated.code(), 128 + SIGTERM) << terminated.AllPrinted();
}

TEST_F(Init, SignalsOfTheRuntime_AreForwarded) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60", "handle"}, options_);
  ASSERT_TRUE(running->WaitForFact("warm "));
  const pid_t init = ChildOf(running->pid());
  ASSERT_GT(init, 0);
  ASSERT_EQ(kill(init, SIGTERM), 0);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23) << result.AllPrinted();
  EXPECT_EQ(result.out, "signal 15: 1\nfinished\n");
  EXPECT_NE(result.profile, nullptr) << result.AllPrinted();
}

TEST_F(Init, Orphans_AreReaped) {
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c",
                                           "for i in 1 2 3 4 5 6 7 8 9 10; do (/bin/true & ) ; done\n"
                                           "for n in $(seq 1000); do\n"
                                           "  grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null >left || exit 4\n"
                                           "  sleep 0.01\n"
                                           "done\n"
                                           "cat $(cat left); exit 5"},
                                          options_);
  EXPECT_EQ(result.code(), 4) << result.out;
}

}  // namespace
}  // namespace tbprof::integration
