// SPDX-License-Identifier: Apache-2.0
// Windows that the program itself begins and ends: --window=nvtx:NAME and cuda-profiler.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cuda_harness.h"
#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

RunResult RunHot(const std::vector<std::string>& arguments, std::vector<std::string> tbprof = {}) {
  std::vector<std::string> command = {Program("trigger")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  tbprof.insert(tbprof.begin(), "--window=nvtx:hot");
  return RunUnderTbprof(command, {.tbprof = tbprof});
}

int64_t StartOf(const std::string& directory) {
  return nlohmann::json::parse(ReadFile(directory + "/summary.json")).at("start_unix_ns");
}

// In the order of their windows: of two that end within a second, the later one may be published first.
std::vector<std::unique_ptr<Profile>> Profiles(const RunResult& result) {
  std::vector<std::string> directories = result.run_directories;
  std::sort(directories.begin(), directories.end(),
            [](const std::string& a, const std::string& b) { return StartOf(a) < StartOf(b); });
  std::vector<std::unique_ptr<Profile>> profiles;
  for (const std::string& directory : directories) {
    const std::vector<std::string> files = FilesBelow(directory, ".xplane.pb");
    EXPECT_THAT(files, SizeIs(1)) << directory;
    if (!files.empty()) profiles.push_back(Profile::Parse(files[0]));
  }
  return profiles;
}

TEST(Trigger, EachRange_IsARunOfItsOwn) {
  const RunResult result = RunHot({"ranges", "2"});
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("recording all while the program is in an NVTX range `hot`")) << result.AllPrinted();
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(2)) << result.AllPrinted();
  for (const auto& profile : profiles) {
    EXPECT_THAT(profile->Named("hot"), SizeIs(2)) << "the range, and one of its name inside it";
    EXPECT_THAT(profile->Named("first"), SizeIs(1));
    EXPECT_THAT(profile->Named("last"), SizeIs(1));
    EXPECT_THAT(profile->Named("usleep", "Inside"), SizeIs(1));
    EXPECT_THAT(profile->Named("usleep", "Outside"), IsEmpty());
    EXPECT_THAT(profile->Named("other"), IsEmpty());
    EXPECT_THAT(profile->Named("after"), IsEmpty());
    for (const Event& range : profile->Named("hot")) {
      EXPECT_GE(range.milliseconds(), 20);
      EXPECT_FALSE(range.Has("clipped"));
    }
  }
  EXPECT_THAT(FilesBelow(result.logdir + "/.tbprof", ".spool"), IsEmpty());
}

// The launcher reads the begin of each range while calls begin at any time.
TEST(Trigger, CallsOfEachRange_AreRecorded) {
  const RunResult result = RunHot({"calls", "90"}, {"--wait-threshold=0"});
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(90)) << result.AllPrinted();
  for (const auto& profile : profiles) EXPECT_THAT(profile->Named("usleep"), SizeIs(40));
}

TEST(Trigger, RangesByNumber_EndOnAnotherThread) {
  const RunResult result = RunHot({"starts"});
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(1)) << result.AllPrinted();
  EXPECT_THAT(profiles[0]->Named("hot"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("inside"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("still inside"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("usleep", "Inside"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("before"), IsEmpty());
  EXPECT_THAT(profiles[0]->Named("after"), IsEmpty());
}

TEST(Trigger, RegisteredNameOfADomain_OpensTheWindow) {
  const RunResult result = RunHot({"registered"});
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(1)) << result.AllPrinted();
  EXPECT_THAT(profiles[0]->Named("of another domain"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("inside"), SizeIs(1)) << "pops of another domain end nothing";
  EXPECT_THAT(profiles[0]->Named("before"), IsEmpty());
  EXPECT_THAT(profiles[0]->Named("after"), IsEmpty());
}

TEST(Trigger, SeveralThreads_FirstBeginToLastEnd) {
  const RunResult result = RunHot({"threads"});
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(1)) << result.AllPrinted();
  EXPECT_THAT(profiles[0]->Named("began"), SizeIs(2));
  EXPECT_THAT(profiles[0]->Named("ends"), SizeIs(2));
  EXPECT_THAT(profiles[0]->Named("hot"), SizeIs(2));
  EXPECT_THAT(profiles[0]->Named("after"), IsEmpty());
}

TEST(Trigger, ProgramKilledInARange_IsPublished) {
  const RunResult result = RunHot({"killed"});
  EXPECT_EQ(result.signal(), SIGKILL);
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(1)) << result.AllPrinted();
  const std::vector<Event> ranges = profiles[0]->Named("hot");
  ASSERT_THAT(ranges, SizeIs(1));
  EXPECT_EQ(ranges[0].Stat("clipped"), "end");
  EXPECT_THAT(profiles[0]->Named("first"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("usleep", "Inside"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("usleep", "Outside"), IsEmpty());
}

TEST(Trigger, RangesOfForkChildren_OpenWindows) {
  const RunResult result = RunHot({"child"});
  EXPECT_EQ(result.code(), 0);
  const auto profiles = Profiles(result);
  ASSERT_THAT(profiles, SizeIs(2)) << result.AllPrinted();
  EXPECT_THAT(profiles[0]->Named("in the child"), SizeIs(1));
  EXPECT_THAT(profiles[0]->Named("usleep", "Inside"), SizeIs(1));
  EXPECT_THAT(profiles[1]->Named("in the killed child"), SizeIs(1));
  EXPECT_TRUE(profiles[1]->HasWarning("the process ended inside the range"));
  for (const auto& profile : profiles) {
    EXPECT_THAT(profile->Named("before"), IsEmpty());
    EXPECT_THAT(profile->Named("after"), IsEmpty());
    EXPECT_THAT(profile->Named("long after"), IsEmpty());
  }
}

TEST(Trigger, NoRange_IsReported) {
  const RunResult result = RunHot({"none"});
  EXPECT_EQ(result.code(), 0);
  EXPECT_TRUE(result.Printed("--window=nvtx:hot: no range of that name came: nothing was recorded"))
      << result.AllPrinted();
  EXPECT_THAT(result.run_directories, IsEmpty());
}

TEST(Trigger, WindowThatTheCommandDoesNotReach_IsReported) {
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"}, {.tbprof = {"--window=1h+1s"}});
  EXPECT_EQ(result.code(), 0);
  EXPECT_TRUE(result.Printed("--window=1h+1s: the command ended before it began, after ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(": nothing was recorded, no profile written"));
  EXPECT_THAT(result.run_directories, IsEmpty());
}

TEST(Trigger, NamesOfAnyBytes_OpenTheWindow) {
  for (const char* name :
       {"a;b", "1", "\xff\xfe", "quite a long name of a range, longer than the words of a register"}) {
    const RunResult result =
        RunUnderTbprof({Program("trigger"), "named", name}, {.tbprof = {std::string("--window=nvtx:") + name}});
    EXPECT_THAT(result.run_directories, SizeIs(1)) << name << result.AllPrinted();
  }
}

TEST(Trigger, MoreRangesThanTheLimit_AreCounted) {
  const RunResult result = RunHot({"short", "400"});
  EXPECT_EQ(result.code(), 0);
  EXPECT_THAT(result.run_directories, SizeIs(100)) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("100 windows are recorded; further ranges are only counted")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(": 300 more ranges came, and were not recorded")) << result.AllPrinted();
}

class CudaProfiler : public testing::Test {
 protected:
  void SetUp() override {
    if (access(Subject("profiler_switch").c_str(), X_OK) != 0) GTEST_SKIP() << "no nvcc: no such subject";
  }
  // The program runs kernels before, in, between and after two windows.
  static void Check(const std::string& cuda) {
    RunOptions options = On("cuda13");
    options.tbprof = {"--window=cuda-profiler", "--cuda=" + cuda};
    const RunResult result = RunUnderTbprof({Subject("profiler_switch")}, options);
    EXPECT_EQ(result.code(), 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("start=0 stop=0"));
    const auto profiles = Profiles(result);
    ASSERT_THAT(profiles, SizeIs(2)) << result.AllPrinted();
    for (const auto& profile : profiles) {
      EXPECT_THAT(profile->Named("not in the window"), IsEmpty());
      EXPECT_THAT(profile->Named("in the window"), SizeIs(1));
      int64_t inside = 0;
      for (const Event& event : profile->events()) {
        if (!event.Has("kernel_details")) continue;
        EXPECT_THAT(event.name, HasSubstr("inside"));
        ++inside;
      }
      // GPU recording is enabled concurrently with the program, so it may be late on a busy machine.
      if (cuda != "off") {
        EXPECT_GE(inside, 1);
      }
    }
  }
};

TEST_F(CudaProfiler, Cupti_WindowIsRecorded) { Check("cupti"); }
TEST_F(CudaProfiler, Hooks_WindowIsRecorded) { Check("hooks"); }
TEST_F(CudaProfiler, Off_WindowIsRecorded) { Check("off"); }

TEST_F(CudaProfiler, NotCalled_IsReported) {
  const RunResult result = RunUnderTbprof({Program("trigger"), "none"}, {.tbprof = {"--window=cuda-profiler"}});
  EXPECT_TRUE(result.Printed("--window=cuda-profiler: cudaProfilerStart was not called: nothing was recorded"))
      << result.AllPrinted();
  EXPECT_THAT(result.run_directories, IsEmpty());
}

}  // namespace
}  // namespace tbprof::integration
