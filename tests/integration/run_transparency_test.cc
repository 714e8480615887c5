// SPDX-License-Identifier: Apache-2.0
// Promise 1: the target never notices.
#include <gmock/gmock.h>
#include <sys/types.h>
#include <unistd.h>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

// Through a shell, so that the shell leads the process group in both runs.
std::vector<std::string> InShell(const std::string& set_up) {
  return {"/bin/sh", "-c", set_up + " \"$@\"; exit $?", "sh"};
}

void ExpectSameSurroundings(const std::string& set_up, const std::vector<std::string>& arguments, RunOptions options) {
  options.launcher = InShell(set_up);
  options.directory = "/usr/lib";
  std::vector<std::string> command = {Program("surroundings")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Pair pair = RunBoth(command, options);
  ASSERT_TRUE(pair.Same());
  for (const RunResult* result : {&pair.bare, &pair.profiled}) {
    EXPECT_EQ(result->Fact("group"), static_cast<uint64_t>(result->pid));
    EXPECT_EQ(result->Fact("session"), static_cast<uint64_t>(options.terminal ? result->pid : getsid(0)));
  }
}

TEST(Surroundings, Plain_AreUnchanged) { ExpectSameSurroundings("", {}, {}); }

TEST(Surroundings, Arguments_AreUnchanged) {
  ExpectSameSurroundings(
      "", {"", "a b", "new\nline", "\xff\xfe not utf-8", "--logdir=/x", "-h", "--", "--version", "*"}, {});
}

TEST(Surroundings, Environment_IsUnchanged) {
  RunOptions options;
  options.environment = {{"EMPTY", ""},
                         {"BYTES", "\xff\n\t="},
                         {"PYTHONPATH", "/somewhere"},
                         {"LD_BIND_NOW", "1"},
                         {"MALLOC_ARENA_MAX", "1"}};
  ExpectSameSurroundings("", {}, options);
}

TEST(Surroundings, LimitsMaskAndPriority_AreUnchanged) {
  ExpectSameSurroundings(
      "umask 027; ulimit -n 300; ulimit -s 4096; ulimit -c 0; taskset -cp 0 $$ >/dev/null; nice -n 5", {}, {});
}

TEST(Surroundings, IgnoredSignals_AreUnchanged) { ExpectSameSurroundings("trap '' INT USR1 PIPE HUP TERM;", {}, {}); }

TEST(Surroundings, Descriptors_AreUnchanged) { ExpectSameSurroundings("exec 5</dev/null 9>/dev/null 0<&-;", {}, {}); }

TEST(Surroundings, BlockedSignals_AreUnchanged) {
  if (access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "python3 is not installed";
  ExpectSameSurroundings(
      "/usr/bin/python3 -c 'import os,signal,sys\n"
      "signal.pthread_sigmask(signal.SIG_BLOCK,[signal.SIGUSR1,signal.SIGTERM,signal.SIGCHLD,40])\n"
      "os.execv(sys.argv[1],sys.argv[1:])'",
      {}, {});
}

TEST(Surroundings, Terminal_IsUnchanged) {
  RunOptions options;
  options.terminal = true;
  ExpectSameSurroundings("", {}, options);
}

TEST(Surroundings, SmallLimits_ProgramRuns) {
  // Too little address space or file size for a segment: the program runs all the same.
  for (const char* limit : {"ulimit -f 8;", "ulimit -v 60000;", "ulimit -n 4;"}) {
    RunOptions options;
    options.directory = "/usr/lib";
    options.launcher = InShell("");
    const Pair pair = RunBoth({"/bin/sh", "-c", std::string(limit) + " exec \"$0\"", Program("surroundings")}, options);
    EXPECT_TRUE(SameOutput(pair.bare, pair.profiled)) << limit;
  }
}

TEST(Errno, EachCall_IsUnchanged) {
  const Pair pair = RunBoth(Program("errors"), {}, {"--wait-threshold=0", "--malloc-interval=4096"});
  EXPECT_TRUE(pair.Same());
  EXPECT_GT(Lines(pair.bare.out).size(), 100u);
}

TEST(Errno, NoWindow_IsUnchanged) {
  const Pair pair = RunBoth(Program("errors"), {}, {"--window=none"});
  EXPECT_TRUE(SameOutput(pair.bare, pair.profiled));
}

TEST(Cancellation, DeferredAndAsynchronous_AreAsBare) {
  const Pair pair = RunBoth(Program("cancels"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("usleep", "main"), SizeIs(1)) << "recording goes on";
}

TEST(Unwinding, OwnFrames_ArePassed) {
  const Pair pair = RunBoth(Program("unwinds"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  // The calls of the handler and the interrupted calls.
  EXPECT_GE(pair.profiled.profile->Named("usleep", "Work").size(), 50u);
}

}  // namespace
}  // namespace tbprof::integration
