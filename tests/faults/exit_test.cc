// SPDX-License-Identifier: Apache-2.0
// Every way to end: the status is the command's, and what was recorded is there. Signals and a million records are in
// run_survival_test.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

// 256 runs in one go take less than as many tests.
TEST(ExitStatus, EachStatus_IsPassedOn) {
  RunOptions options;
  options.tbprof = {"--window=none", "--quiet"};
  for (int code = 0; code < 256; ++code) {
    const RunResult result = RunUnderTbprof({Program("ends"), "exit", std::to_string(code)}, options);
    ASSERT_TRUE(result.exited());
    ASSERT_EQ(result.code(), code) << result.AllPrinted();
  }
}

class OddEnd : public testing::TestWithParam<const char*> {};

TEST_P(OddEnd, EachWay_IsAsBareAndRecorded) {
  const Pair pair = RunBoth(Program("ends_oddly"), {GetParam()}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.profile->Named("usleep", "main").size(), std::string(GetParam()) == "detached" ? 2u : 1u);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  const std::map<std::string, int> signals = {{"fpe", SIGFPE}, {"ill", SIGILL}, {"bus", SIGBUS}};
  const auto signal = signals.find(GetParam());
  EXPECT_EQ(pair.profiled.signal(), signal == signals.end() ? 0 : signal->second);
  EXPECT_EQ(pair.profiled.code(), signal == signals.end() ? 3 : -1);
}
INSTANTIATE_TEST_SUITE_P(All, OddEnd,
                         testing::Values("quick_exit", "exit_group", "fpe", "ill", "bus", "detached", "pthread_exit"),
                         [](const auto& way) { return std::string(way.param); });

// The calls of destructors of thread-specific values, with others' destructors still to come, are recorded.
TEST(Destructors, CallsOfDestructors_AreRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("ends_oddly"), "pthread_exit"}, options);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_THAT(result.profile->Named("usleep", "Destructor"), SizeIs(1)) << "of the main thread";
}

// Whether the kernel dumps, and where, is the system's affair (core_pattern). The launcher, which ends by the same
// signal, leaves no core file of its own, which might replace the command's.
TEST(Core, CoreFile_IsMadeAsBare) {
  const auto cores = [](bool profiled) {
    TemporaryDirectory directory;
    RunOptions options;
    options.launcher = {"/bin/sh", "-c", "ulimit -c unlimited 2>/dev/null; exec \"$@\"", "sh"};
    options.directory = directory.path();
    const std::vector<std::string> command = {Program("ends_oddly"), "core"};
    const RunResult result = profiled ? RunUnderTbprof(command, options) : RunBare(command, options);
    EXPECT_EQ(result.signal(), SIGABRT) << result.AllPrinted();
    EXPECT_EQ(result.out, "core\n");
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      if (!entry.path().filename().string().starts_with("core")) continue;
      ++count;
      EXPECT_NE(ReadFile(entry.path()).find("ends_oddly"), std::string::npos) << "it is the command's";
      EXPECT_LT(entry.file_size(), 16u << 20) << "the segment stays out of it";
    }
    return count;
  };
  EXPECT_EQ(cores(false), cores(true));
}

}  // namespace
}  // namespace tbprof::integration
