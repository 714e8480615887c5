// SPDX-License-Identifier: Apache-2.0
// Processes in namespaces and roots of their own, and processes that outlive the command. Where a namespace may not be
// made, the command fails bare as it does under tbprof, and that is compared.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

struct Place {
  const char* name;
  const char* text;  // of a shell; "$@" is the program
};
class Namespace : public testing::TestWithParam<Place> {};

// The program in it is recorded; its times lie within the run, whatever its clock is set to.
TEST_P(Namespace, EachKind_ProgramIsRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const Pair pair = RunBoth({"/bin/sh", "-c", GetParam().text, "sh", Program("forks_beside_threads"), "3"}, options);
  ASSERT_TRUE(pair.Same());
  if (pair.bare.code() != 0) return;  // not permitted here
  EXPECT_EQ(pair.profiled.out, "bad 0\n");
  const std::vector<Event> waits = pair.profiled.profile->Named("waitpid", "main");
  ASSERT_EQ(waits.size(), 3u);
  for (const Event& wait : waits) EXPECT_LT(wait.end_ps(), int64_t{120} * 1'000'000'000'000) << wait;
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}
INSTANTIATE_TEST_SUITE_P(
    Kinds, Namespace,
    testing::Values(Place{"all", "unshare -Urpf \"$@\""}, Place{"mounts", "unshare -Urm \"$@\""},
                    Place{"time", "unshare -UrT --monotonic 100000 --boottime 100000 -f \"$@\""},
                    Place{"noproc",
                          "unshare -Urm sh -c 'umount -l /proc 2>/dev/null || mount -t tmpfs none /proc || "
                          "exit 9; exec \"$@\"' sh \"$@\""},
                    Place{"pivot",
                          "unshare -Urm sh -c 'mount --rbind / /mnt && cd /mnt && pivot_root . mnt && "
                          "exec \"$@\"' sh \"$@\""},
                    Place{"root", "unshare -Urm sh -c 'exec chroot / \"$@\"' sh \"$@\""}),
    [](const auto& place) { return std::string(place.param.name); });

// tbprof itself in a PID namespace whose /proc is that outside: its numbers are those of other processes.
TEST(ProcOfOthers, IsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "a PID namespace needs root";
  RunOptions options;
  options.launcher = {"/usr/bin/unshare", "-p", "-f"};
  const RunResult result = RunUnderTbprof({"/bin/echo", "ran"}, options);
  EXPECT_EQ(result.out, "ran\n");
  EXPECT_TRUE(result.Printed("/proc belongs to another PID namespace")) << result.AllPrinted();
}

// The kernel's samples have the time outside of the namespace.
TEST(TimeNamespace, OfTheLauncher_NativeSamplesAreKept) {
  if (geteuid() != 0) GTEST_SKIP() << "a time namespace needs root";
  RunOptions options;
  options.launcher = {"/usr/bin/unshare", "-T", "-f", "--monotonic", "100000"};
  const RunResult result = RunUnderTbprof({Program("burns"), "plain", "500"}, options);
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
  const auto& native = result.summary["native"];
  if (native["processes"][0]["state"] != "sampled") return;  // not permitted here
  EXPECT_GT(native["samples"].get<int64_t>(), 10) << native.dump(1);
}

// Another root, where neither the library nor the socket's path exists: the loader prints its line for a missing
// library, and nothing else changes. What was loaded before goes on by what it has mapped.
TEST(Root, OwnRootOfTheProgram_IsAsBare) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const Pair pair = RunBoth({Program("changes_root")}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_EQ(pair.profiled.profile->Named("usleep", "Inside").size(), 2u) << "of the process and of its fork child";
}

// The command is over when it is; what it leaves behind goes on unharmed, and nothing of ours stays.
TEST(Daemon, DaemonOutlivesTheCommand_IsUnchanged) {
  TemporaryDirectory directory;
  const auto running = StartUnderTbprof({Program("daemonises"), directory / "end"}, RunOptions());
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 3);
  EXPECT_NE(result.profile, nullptr) << result.AllPrinted();
  const int64_t daemon = running->WaitForNumber("daemon");
  ASSERT_GT(daemon, 0);
  EXPECT_EQ(kill(static_cast<pid_t>(daemon), 0), 0) << "it is alive";
  WriteFile(directory / "end", "");
  bool ended = false;
  for (int i = 0; i < 3000 && !ended; ++i) {
    ended = running->Facts().find("daemon_ends 1") != std::string::npos;
    usleep(10000);
  }
  EXPECT_TRUE(ended) << "it came to its own end";
}

// A command that ends at once, and a process that calls nothing with a hook: no record tells of it.
TEST(Daemon, LeftByACommandThatEndsAtOnce_IsNamed) {
  for (int i = 0; i < 10; ++i) {
    const RunResult result = RunUnderTbprof({"/bin/sh", "-c", "sleep 60 > /dev/null 2>&1 & echo $!"}, RunOptions());
    const int daemon = atoi(result.out.c_str());
    ASSERT_GT(daemon, 1);
    EXPECT_TRUE(result.Printed("1 process runs on without being recorded: sleep (" + std::to_string(daemon) + ")"))
        << result.AllPrinted();
    kill(daemon, SIGKILL);
  }
}

// With --follow=all it is waited for, and what it did is there.
TEST(Daemon, FollowAll_DaemonIsWaitedFor) {
  TemporaryDirectory directory;
  RunOptions options;
  options.tbprof = {"--follow=all", "--wait-threshold=0"};
  const auto running = StartUnderTbprof({Program("daemonises"), directory / "end"}, options);
  const int64_t daemon = running->WaitForNumber("daemon");
  ASSERT_GT(daemon, 0);
  // The launcher waits with the daemon as its child or as another's; nothing lies about as a zombie.
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(running->Ended());
    usleep(10000);
  }
  const std::string children =
      ReadFile("/proc/" + std::to_string(running->pid()) + "/task/" + std::to_string(running->pid()) + "/children");
  for (const std::string& line : Lines(children)) {
    for (size_t at = 0; at < line.size();
         at = line.find(' ', at) == std::string::npos ? line.size() : line.find(' ', at) + 1) {
      const std::string stat = ReadFile("/proc/" + std::to_string(atoi(line.c_str() + at)) + "/stat");
      EXPECT_EQ(stat.find(") Z "), std::string::npos) << stat;
    }
  }
  WriteFile(directory / "end", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 3);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  bool recorded = false;
  for (const auto& process : result.summary["processes"]) recorded |= process["pid"] == daemon;
  EXPECT_TRUE(recorded);
}

// The kernel's choice among processes is left as it was: neither the launcher nor the command is made safer.
TEST(OutOfMemory, Scores_AreThoseOfTheUser) {
  const auto running = StartUnderTbprof({Program("records_on_command"), "10"}, RunOptions());
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_GT(target, 0);
  const std::string own = ReadFile("/proc/self/oom_score_adj");
  EXPECT_EQ(ReadFile("/proc/" + std::to_string(running->pid()) + "/oom_score_adj"), own);
  EXPECT_EQ(ReadFile("/proc/" + std::to_string(target) + "/oom_score_adj"), own);
  // The launcher goes first: the command comes to its own end.
  kill(running->pid(), SIGKILL);
  running->Wait();
  kill(target, SIGUSR2);
  ASSERT_TRUE([&] {
    for (int i = 0; i < 3000; ++i) {
      if (running->Facts().find("done 1") != std::string::npos) return true;
      usleep(10000);
    }
    return false;
  }());
  kill(target, SIGUSR2);
  bool done = false;
  for (int i = 0; i < 3000 && !done; ++i) {
    done = running->Facts().find("done 2") != std::string::npos;
    usleep(10000);
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace tbprof::integration
