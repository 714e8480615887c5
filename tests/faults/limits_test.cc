// SPDX-License-Identifier: Apache-2.0
// Limits and missing things, of the target's own, of the launcher's, and around both.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../integration/harness.h"
#include "other_user.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

// A word of shell before the launcher, which inherits what it sets.
std::vector<std::string> InShell(const std::string& before) { return {"/bin/sh", "-c", before + " exec \"$@\"", "sh"}; }

std::vector<std::string> InMountNamespace(const std::string& before) {
  return {"/usr/bin/unshare", "-m", "--propagation", "private", "/bin/sh", "-c", before + " exec \"$@\"", "sh"};
}

class OwnLimit : public testing::TestWithParam<const char*> {};

// Lowered in mid-run, what is recorded goes on; a program started under it may stay unrecorded, and runs.
TEST_P(OwnLimit, LoweredDuringTheRun_ProgramsAreAsBare) {
  const Pair pair = RunBoth(Program("own_limits"), {GetParam()}, {"--wait-threshold=0"});
  EXPECT_EQ(pair.bare.code(), 9);
  ASSERT_TRUE(pair.Same());
  EXPECT_GE(Recorded(pair.profiled, "read"), 20000);
}
INSTANTIATE_TEST_SUITE_P(All, OwnLimit, testing::Values("file", "memory", "locked", "descriptors", "processes"));

// The segment and the library do not count, and the program reads the limit that it set.
TEST(OwnAddressLimit, ProgramReadsAndGetsWhatItSet) {
  const Pair pair = RunBoth(Program("own_address_limit"), {}, {"--wait-threshold=0"});
  EXPECT_EQ(pair.bare.code(), 5);
  EXPECT_THAT(pair.bare.out, HasSubstr("own 16 MiB, errno: 16 12\n"));
  EXPECT_EQ(pair.bare.out, pair.profiled.out);
  ASSERT_TRUE(pair.Same());
  EXPECT_GE(Recorded(pair.profiled, "fork"), 5);
}

TEST(FileSizeLimit, OfTheTarget_NoSignalByTbprof) {
  for (const char* kilobytes : {"1", "4000", "16000"}) {
    const Pair pair = RunBoth(
        std::vector<std::string>{"/bin/bash", "-c", std::string("ulimit -f ") + kilobytes + "; exec \"$0\" 2000 _exit",
                                 Program("survive")},
        RunOptions());
    EXPECT_EQ(pair.bare.code(), 3) << kilobytes;
    EXPECT_TRUE(pair.Same()) << kilobytes;
  }
}

// The launcher's own files grow into the limit: an error, as with a full disk. The target has the same limit.
TEST(FileSizeLimit, OfTheLauncher_IsNoSignal) {
  for (const char* kilobytes : {"0", "1", "100"}) {
    RunOptions options;
    options.launcher = {"/bin/bash", "-c", std::string("trap '' PIPE; ulimit -f ") + kilobytes + "; exec \"$@\"",
                        "bash"};
    const RunResult bare = RunBare({Program("sleeps_once")}, options);
    const RunResult result = RunUnderTbprof({Program("sleeps_once")}, options);
    EXPECT_EQ(bare.code(), 0);
    EXPECT_TRUE(result.exited()) << kilobytes << ": signal " << result.signal();
    EXPECT_TRUE(result.code() == 0 || result.code() == 125) << kilobytes;
  }
}

TEST(FileSizeLimit, OfTheLauncherDuringTheRun_RecordsThatFitAreKept) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const auto running = StartUnderTbprof({Program("records_until_asked"), "400000"}, options);
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  struct rlimit small = {6 << 20, RLIM_INFINITY};
  ASSERT_EQ(prlimit(running->pid(), RLIMIT_FSIZE, &small, nullptr), 0);
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 7) << "the command's";
  EXPECT_EQ(result.out, "done\n");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("records are missing")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("File too large")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("records are missing"));
  EXPECT_GT(Recorded(result, "read"), 0);
}

TEST(AddressSpaceLimit, Small_ProgramIsAsBare) {
  for (const char* kilobytes : {"30000", "100000", "300000", "4000000"}) {
    const Pair pair = RunBoth(
        std::vector<std::string>{"/bin/bash", "-c", std::string("ulimit -v ") + kilobytes + "; exec \"$0\" 2000 _exit",
                                 Program("survive")},
        RunOptions());
    EXPECT_EQ(pair.bare.code(), 3) << kilobytes;
    EXPECT_TRUE(pair.Same()) << kilobytes;
  }
}

// tbprof's share is not the program's: what just fits without tbprof fits with it, and the limit reads the same.
TEST(AddressSpaceLimit, InheritedSoftLimit_LeavesTheProgramItsOwn) {
  const std::string allocates =
      "import resource; print(len(bytearray(540 << 20)), resource.getrlimit(resource.RLIMIT_AS))";
  for (const bool by_launcher : {false, true}) {
    RunOptions options;
    const std::string limit = "ulimit -Sv 600000;";
    if (by_launcher) options.launcher = InShell(limit);
    const std::string script = (by_launcher ? "" : limit) + " exec /usr/bin/python3 -c '" + allocates + "'";
    const RunResult result = RunUnderTbprof({"/bin/bash", "-c", script}, options);
    EXPECT_EQ(result.code(), 0) << result.AllPrinted();
    EXPECT_EQ(result.out, "566231040 (614400000, -1)\n") << result.AllPrinted();
    EXPECT_NE(result.profile, nullptr);
  }
}

// The launcher needs more, and the command has what it had.
TEST(StackLimit, Small_LauncherTakesMore) {
  RunOptions options;
  options.launcher = InShell("ulimit -S -s 100;");
  const RunResult result = RunUnderTbprof({"/bin/bash", "-c", "ulimit -s; exit 7"}, options);
  EXPECT_EQ(result.code(), 7) << result.AllPrinted();
  EXPECT_EQ(result.out, "100\n");
  EXPECT_NE(result.profile, nullptr) << result.AllPrinted();
}

TEST(HardLimits, TooSmallForTbprof_AreNamedBeforeTheStart) {
  for (const auto& [limit, named] : std::vector<std::pair<std::string, std::string>>{
           {"ulimit -s 200;", "the stack is limited to 200 KiB"}, {"ulimit -n 30;", "`ulimit -Hn` is 30"}}) {
    RunOptions options;
    options.launcher = InShell(limit);
    const RunResult result = RunUnderTbprof({"/bin/echo", "ran"}, options);
    EXPECT_EQ(result.code(), 125) << result.AllPrinted();
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.Printed(named)) << result.AllPrinted();
    options.tbprof = {"--on-error=run"};
    const RunResult ran = RunUnderTbprof({"/bin/echo", "ran"}, options);
    EXPECT_EQ(ran.out, "ran\n") << ran.AllPrinted();
  }
}

TEST(Descriptors, ClosedAndReusedByTheProgram_AreAsBare) {
  TemporaryDirectory bare, profiled;
  const RunResult first = RunBare({Program("closes_descriptors"), bare.path()});
  RunOptions options;
  options.tbprof = {"--malloc-interval=4096", "--wait-threshold=0"};
  const RunResult second = RunUnderTbprof({Program("closes_descriptors"), profiled.path()}, options);
  EXPECT_EQ(first.code(), 0);
  EXPECT_TRUE(SameOutput(first, second));
  EXPECT_THAT(first.out, HasSubstr("13 files, from 3 to 15"));
  for (int i = 0; i < 13; ++i) {
    const std::string name = "file" + std::to_string(i);
    EXPECT_EQ(ReadFile(bare / name), ReadFile(profiled / name)) << name;
  }
  ASSERT_NE(second.profile, nullptr);
  EXPECT_GE(second.profile->Count("write"), 13 * 200);
}

// The launcher holds a descriptor for each process; a small soft limit is the command's affair.
TEST(Descriptors, FewForTheLauncher_ManyProcessesAreRecorded) {
  RunOptions options;
  options.launcher = InShell("ulimit -S -n 24;");
  const std::string script = "ulimit -S -n; for i in $(seq 40); do \"$0\" 60 & done; wait; exit 4";
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({"/bin/bash", "-c", script, Program("sleeps_once")}, options);
  EXPECT_EQ(result.code(), 4) << result.AllPrinted();
  EXPECT_EQ(result.out, "24\n") << "the command's limit is as it was";
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(Recorded(result, "usleep"), 40) << result.AllPrinted();
}

TEST(SharedMemory, SmallInAContainer_IsNotNeeded) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  for (const char* before : {"mount -t tmpfs -o size=4k tmpfs /dev/shm;", "mount -t tmpfs -o size=64m tmpfs /dev/shm;",
                             "while umount /dev/shm 2>/dev/null; do :; done;"}) {
    RunOptions options;
    options.launcher = InMountNamespace(before);
    options.tbprof = {"--wait-threshold=0"};
    const RunResult result = RunUnderTbprof({Program("survive"), "200000", "_exit"}, options);
    EXPECT_EQ(result.code(), 3) << before << result.err;
    ASSERT_NE(result.profile, nullptr) << before << result.AllPrinted();
    EXPECT_EQ(Recorded(result, "read"), 100000) << before;
  }
}

class FewProcesses : public OtherUserTest {};

// RLIMIT_NPROC does not hold for root.
TEST_F(FewProcesses, NoThreadOrProcessCanBeStarted_CommandRunsAlone) {
  const std::string build = TBPROF_BUILD_DIR;
  std::filesystem::create_directories(root_ / "bin");
  std::filesystem::create_directories(root_ / "lib");
  std::filesystem::copy(build + "/bin/tbprof", root_ / "bin/tbprof");
  std::filesystem::copy(build + "/lib/tbprof", root_ / "lib/tbprof");
  for (const char* limit : {"1", "3", "6"}) {
    const RunResult run = RunBare({"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/bash",
                                   "-c", "ulimit -u $0; exec \"$@\"", limit, root_ / "bin/tbprof", "run",
                                   "--on-error=run", "--logdir=" + theirs_ + "/logs", "--", "/bin/echo", "hi"});
    EXPECT_EQ(run.code(), 0) << limit << run.err;
    EXPECT_EQ(run.out, "hi\n") << limit;
    EXPECT_TRUE(run.Printed("the cgroup's pids.max")) << limit << run.AllPrinted();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(theirs_)) {
      EXPECT_NE(entry.path().extension(), ".spool") << limit;
    }
  }
}

}  // namespace
}  // namespace tbprof::integration
