// SPDX-License-Identifier: Apache-2.0
// The last sampled stacks of Python threads, for programs that end in different ways.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "harness.h"

namespace tbprof::integration {
namespace {

constexpr const char* kPython = "/usr/bin/python3";

// Works long enough to be sampled, in `work`, then ends in `end`.
std::string Program(const std::string& end) {
  return R"(
import ctypes, os, signal, sys, threading
# No core files.
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def work():
    total = 0
    for i in range(12000000):
        total += i
    return total

def finish():
)" + end +
         R"(

def main():
    work()
    finish()

main()
)";
}

RunResult RunEnding(const std::string& end) {
  RunOptions options;
  options.tbprof = {"--sample-rate=100"};
  return RunUnderTbprof({kPython, "-c", Program(end)}, options);
}

bool HasFunction(const nlohmann::json& stack, const std::string& name) {
  return std::ranges::any_of(stack["frames"], [&](const nlohmann::json& frame) { return frame["function"] == name; });
}

class PythonLastStacks : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kPython, X_OK) != 0) GTEST_SKIP() << "no " << kPython;
  }
};

void ExpectLastStack(const RunResult& run, int signal) {
  EXPECT_EQ(run.signal(), signal) << run.AllPrinted();
  const nlohmann::json& stacks = run.summary["python"]["last_stacks"];
  ASSERT_GE(stacks.size(), 1u) << run.AllPrinted();
  EXPECT_EQ(stacks[0]["signal"], signal);
  EXPECT_EQ(stacks[0]["main"], true);
  EXPECT_TRUE(HasFunction(stacks[0], "main")) << stacks.dump();
  EXPECT_TRUE(run.Printed("python  last samples of")) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("before the end: ")) << run.AllPrinted();
}

TEST_F(PythonLastStacks, Segfault_ShowsWhereTheMainThreadWasSeen) {
  ExpectLastStack(RunEnding("    ctypes.string_at(0)"), SIGSEGV);
}

TEST_F(PythonLastStacks, Abort_ShowsWhereTheMainThreadWasSeen) {
  ExpectLastStack(RunEnding("    os.abort()"), SIGABRT);
}

TEST_F(PythonLastStacks, KilledByItself_ShowsWhereTheMainThreadWasSeen) {
  ExpectLastStack(RunEnding("    os.kill(os.getpid(), signal.SIGKILL)"), SIGKILL);
}

TEST_F(PythonLastStacks, ChildKilledByItsParent_ShowsTheChild) {
  const RunResult run = RunEnding(R"(
    child = os.fork()
    if child == 0:
        while True: work()
    work()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0))");
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  const nlohmann::json& stacks = run.summary["python"]["last_stacks"];
  ASSERT_EQ(stacks.size(), 1u) << run.AllPrinted();
  EXPECT_EQ(stacks[0]["signal"], SIGKILL);
  EXPECT_TRUE(HasFunction(stacks[0], "work")) << stacks.dump();
  EXPECT_TRUE(HasFunction(stacks[0], "finish")) << stacks.dump();
}

TEST_F(PythonLastStacks, EndsThatPrintATracebackOrAreWanted_ShowNothing) {
  for (const char* end : {"    sys.exit(3)", "    raise MemoryError", "    os._exit(4)", "    pass"}) {
    const RunResult run = RunEnding(end);
    EXPECT_TRUE(run.exited()) << end;
    EXPECT_GT(run.summary["python"]["groups"].size(), 0u) << end << run.AllPrinted();
    EXPECT_EQ(run.summary["python"]["last_stacks"].size(), 0u) << end;
    EXPECT_FALSE(run.Printed("last samples")) << end << run.AllPrinted();
  }
}

}  // namespace
}  // namespace tbprof::integration
