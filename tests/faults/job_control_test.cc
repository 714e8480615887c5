// SPDX-License-Identifier: Apache-2.0
// Jobs: stopped and continued, without a terminal, in the background, hung up; and interrupts while the profile is
// written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

char StateOf(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = stat.rfind(") ");
  return end == std::string::npos ? '?' : stat[end + 2];
}

template <typename Condition>
bool WaitUntil(Condition condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

pid_t WorkerOf(pid_t pid) {
  std::istringstream children(ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  for (pid_t child; children >> child;) {
    if (ReadFile("/proc/" + std::to_string(child) + "/cmdline").find("--convert-worker") != std::string::npos) {
      return child;
    }
  }
  return 0;
}

std::vector<std::string> Spools(const std::string& logdir) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(logdir + "/.tbprof", none)) {
    if (entry.path().extension() == ".spool") found.push_back(entry.path());
  }
  return found;
}

TEST(JobControl, StopAndContinueOfTheGroup_AreAsBare) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60", "handle"});
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  for (int round = 1; round <= 3; ++round) {
    kill(-running->pid(), SIGTSTP);
    EXPECT_TRUE(WaitUntil([&] { return StateOf(target) == 'T' && StateOf(running->pid()) == 'T'; }))
        << "as the shell expects of a job: " << StateOf(target) << StateOf(running->pid());
    kill(-running->pid(), SIGCONT);
    EXPECT_TRUE(WaitUntil([&] { return StateOf(target) != 'T' && StateOf(running->pid()) != 'T'; }));
  }
  running->Signal(SIGTERM);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_THAT(result.out, testing::MatchesRegex("signal 15: 1\nsignal 18: [123]\nfinished\n"));
  EXPECT_NE(result.profile, nullptr);
}

// `kill -STOP` on the program is the program's affair.
TEST(JobControl, StopOfTheTargetAlone_IsAsBare) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"});
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  kill(target, SIGSTOP);
  ASSERT_TRUE(WaitUntil([&] { return StateOf(target) == 'T'; }));
  kill(target, SIGCONT);
  WriteFile(running->path() + "/stop", "");
  EXPECT_EQ(running->Wait().code(), 23);
}

class EndingSignal : public testing::TestWithParam<int> {};

// The whole group, default action: both end by it, and the profile is there.
TEST_P(EndingSignal, SentToTheGroup_ProfileIsWritten) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"});
  ASSERT_TRUE(running->WaitForFact("warm "));
  kill(-running->pid(), GetParam());
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), GetParam());
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_GE(result.profile->Count("usleep"), 49);
}
INSTANTIATE_TEST_SUITE_P(All, EndingSignal, testing::Values(SIGHUP, SIGINT, SIGTERM, SIGQUIT));

// `timeout` makes a process group of its own, if it does not lead one as it would without tbprof.
std::vector<std::string> InOwnGroup(std::vector<std::string> command) {
  command.insert(command.begin(), {"/usr/bin/timeout", "60"});
  return command;
}

TEST_P(EndingSignal, SentToTheGroupThatTheCommandHasLeft_CommandGetsIt) {
  const auto running = StartUnderTbprof(InOwnGroup({Program("waits_for_signals"), "60"}));
  ASSERT_TRUE(running->WaitForFact("warm "));
  kill(-running->pid(), GetParam());
  // `timeout` passes it on once more. Ended by it: 128 and its number, or as `timeout` is.
  const RunResult result = running->Wait();
  EXPECT_TRUE(result.signal() == GetParam() || result.code() == 128 + GetParam()) << result.AllPrinted();
}

TEST(JobControl, StopAndContinueOfTheGroupThatTheCommandHasLeft_AreAsBare) {
  const auto running = StartUnderTbprof(InOwnGroup({Program("waits_for_signals"), "60", "handle"}));
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  for (int round = 1; round <= 3; ++round) {
    kill(-running->pid(), SIGTSTP);
    EXPECT_TRUE(WaitUntil([&] { return StateOf(target) == 'T' && StateOf(running->pid()) == 'T'; }))
        << StateOf(target) << StateOf(running->pid());
    kill(-running->pid(), SIGCONT);
    EXPECT_TRUE(WaitUntil([&] { return StateOf(target) != 'T' && StateOf(running->pid()) != 'T'; }));
  }
  running->Signal(SIGTERM);
  EXPECT_EQ(running->Wait().code(), 23);
}

// As in a container: there is no shell that could continue a stopped job, and the kernel stops none.
TEST(JobControl, StopOfAnOrphanedGroupThatTheCommandHasLeft_IsDropped) {
  RunOptions options;
  options.launcher = {"/usr/bin/setsid", "-w"};
  const auto running = StartUnderTbprof(InOwnGroup({Program("waits_for_signals"), "60", "handle"}), options);
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  const pid_t launcher = getsid(target);
  kill(-launcher, SIGTSTP);
  // The launcher takes lower numbers first.
  kill(-launcher, SIGWINCH);
  EXPECT_TRUE(running->WaitForFact("signal " + std::to_string(SIGWINCH)));
  EXPECT_NE(StateOf(target), 'T');
  kill(-launcher, SIGTERM);
  EXPECT_EQ(running->Wait().code(), 23);
}

// A second interrupt after the command's end: the conversion stops, the raw records stay.
TEST(Interrupt, TwiceDuringTheConversion_SpoolIsKept) {
  const auto running = StartUnderTbprof({Program("survive"), "20000", "return"}, [] {
    RunOptions options;
    options.tbprof = {"--wait-threshold=0"};
    return options;
  }());
  pid_t worker = 0;
  ASSERT_TRUE(WaitUntil([&] { return (worker = WorkerOf(running->pid())) > 0 || running->Ended(); }));
  // Held, so that it cannot be done before we are.
  if (worker == 0 || kill(worker, SIGSTOP) != 0) GTEST_SKIP() << "the conversion was over before it was seen";
  if (!WaitUntil([&] { return StateOf(worker) == 'T' || running->Ended(); }) || running->Ended()) {
    GTEST_SKIP() << "the conversion was over before it was stopped";
  }
  running->Signal(SIGINT);
  EXPECT_TRUE(running->WaitForError("interrupt once more"));
  EXPECT_FALSE(running->Ended()) << "one interrupt is for the command, which has ended";
  running->Signal(SIGINT);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0) << "the command's";
  EXPECT_TRUE(result.Printed("stopped before the profile was written")) << result.AllPrinted();
  EXPECT_THAT(result.run_directories, IsEmpty());
  ASSERT_THAT(Spools(result.logdir), SizeIs(1));
  EXPECT_TRUE(result.Printed("tbprof recover " + Spools(result.logdir)[0])) << result.AllPrinted();
  EXPECT_EQ(RunTbprof({"recover", "--logdir=" + result.logdir}).code(), 0);
  RunResult recovered;
  recovered.logdir = result.logdir;
  ReadProfile(&recovered);
  ASSERT_NE(recovered.profile, nullptr);
  EXPECT_EQ(recovered.profile->Count("read"), 10000);
}

// ---- how it was started

// The command is the launcher's child, so it leads no group or session where it would have without.
std::string WithoutLeading(const std::string& out) {
  std::string rest;
  for (const std::string& line : Lines(out)) rest += line.starts_with("leads its group") ? "" : line + "\n";
  return rest;
}

void ExpectSame(const Pair& pair) {
  EXPECT_EQ(pair.bare.status, pair.profiled.status);
  EXPECT_EQ(WithoutLeading(pair.bare.out), WithoutLeading(pair.profiled.out));
  EXPECT_EQ(pair.bare.err, pair.profiled.err);
  EXPECT_NE(pair.profiled.profile, nullptr) << pair.profiled.AllPrinted();
}

class Started : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Started, EachWayOfStarting_CommandSeesTheSame) {
  RunOptions options;
  options.launcher = GetParam();
  options.directory = "/";
  const Pair pair = RunBoth({Program("surroundings")}, options);
  EXPECT_EQ(pair.bare.code(), 0) << pair.bare.err;
  ExpectSame(pair);
}
INSTANTIATE_TEST_SUITE_P(Ways, Started,
                         testing::Values(std::vector<std::string>{"/usr/bin/nohup"},
                                         std::vector<std::string>{"/usr/bin/setsid", "-w"},
                                         std::vector<std::string>{"/bin/sh", "-c", "exec 0<&-; exec \"$@\"", "sh"},
                                         std::vector<std::string>{"/bin/sh", "-c", "\"$@\" & wait $!", "sh"},
                                         std::vector<std::string>{"/usr/bin/nice", "-n", "5"},
                                         std::vector<std::string>{"/usr/bin/env", "-C", "/usr"}));

// Its own lines go nowhere then, and never into a file that happens to get the number.
TEST(Started, NoStandardError_LinesAreDiscarded) {
  for (const char* before : {"exec 2>&-;", "exec 0<&- 2>&-;", "exec 0<&- 1>&- 2>&-;"}) {
    RunOptions options;
    options.launcher = {"/bin/sh", "-c", std::string(before) + " exec \"$@\"", "sh"};
    options.directory = "/";
    const Pair pair = RunBoth({Program("surroundings")}, options);
    ExpectSame(pair);
    EXPECT_THAT(pair.profiled.printed, IsEmpty());
  }
}

// A job that the command leaves behind: it goes on, unrecorded, and that is reported.
TEST(Background, JobThatOutlivesTheCommand_IsNamed) {
  const TemporaryDirectory directory;
  const std::string up = directory / "up", end = directory / "end";
  ASSERT_EQ(mkfifo(up.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(end.c_str(), 0600), 0);
  const std::string script = "(echo up > " + up + "; read line < " + end + ") > /dev/null 2>&1 & read line < " + up;
  const RunResult run = RunUnderTbprof({"/bin/sh", "-c", script}, RunOptions());
  EXPECT_TRUE(run.Printed("1 process runs on without being recorded: sh (")) << run.AllPrinted();
  EXPECT_FALSE(RunUnderTbprof({"/bin/true"}, RunOptions()).Printed("without being recorded"));
  close(open(end.c_str(), O_WRONLY));  // ends it
}

// A reader in the background is stopped by the terminal, not fed and not failed.
TEST(Background, ReadFromTheTerminal_Stops) {
  RunOptions options;
  options.terminal = true;
  const std::string script =
      "set -m; \"$@\" & "
      "while ! jobs | grep -q Stopped; do jobs > /dev/null; sleep 0.02; done; jobs | grep -o Stopped; "
      "kill %1; kill -CONT %1; wait %1; echo status $?";
  options.launcher = {"/bin/bash", "-c", script, "bash"};
  const RunResult bare = RunBare({"/bin/cat"}, options);
  const RunResult profiled = RunUnderTbprof({"/bin/cat"}, options);
  EXPECT_THAT(bare.out, HasSubstr("Stopped\nstatus 143\n"));
  EXPECT_EQ(bare.out, profiled.out) << profiled.AllPrinted() << profiled.err;
}

// A command in the foreground that makes a process group of its own may use the terminal all the same.
TEST(Foreground, CommandInItsOwnGroup_UsesTheTerminal) {
  RunOptions options;
  options.tbprof = {"--quiet"};
  options.launcher = {"/usr/bin/python3", "-c", R"(
import pty, sys
pty.spawn(["/bin/bash", "-c", 'set -m; "$@"; echo status $?', "bash"] + sys.argv[1:])
)"};
  const std::vector<std::string> command = InOwnGroup({"/bin/stty", "echo"});
  EXPECT_EQ(RunBare(command, options).out, "status 0\r\n");
  EXPECT_EQ(RunUnderTbprof(command, options).out, "status 0\r\n");
}

// What somebody stops there by SIGSTOP stays stopped: the command itself, and a process below it.
TEST(Foreground, StoppedBySomebodyInItsOwnGroup_StaysStopped) {
  for (const char* stopped : {"$PPID", "$$"}) {
    const TemporaryDirectory directory;
    const std::string pid = directory / "pid", end = directory / "end", states = directory / "states";
    RunOptions options;
    options.tbprof = {"--quiet"};
    // A second job stops it, looks at it 20 times, and lets it end.
    const std::string shell = R"sh(set -m
pid=$1 end=$2 states=$3; shift 3
( until [ -s "$pid" ]; do sleep 0.02; done
  stopped=$(cat "$pid"); kill -STOP $stopped
  until [ "$(cut -d" " -f3 /proc/$stopped/stat)" = T ]; do :; done
  for look in $(seq 20); do cut -d" " -f3 /proc/$stopped/stat; sleep 0.05; done | sort -u > "$states"
  touch "$end"; kill -CONT $stopped ) &
"$@"; echo status $?
)sh";
    const std::string python = "import pty, sys\npty.spawn(['/bin/bash', '-c'] + sys.argv[1:])\n";
    options.launcher = {"/usr/bin/python3", "-c", python, shell, "bash", pid, end, states};
    const std::string script = std::string("echo ") + stopped + " > " + pid + ".new; mv " + pid + ".new " + pid +
                               "; until [ -e " + end + " ]; do sleep 0.02; done";
    const RunResult result = RunUnderTbprof(InOwnGroup({"/bin/sh", "-c", script}), options);
    EXPECT_EQ(ReadFile(states), "T\n") << stopped;
    EXPECT_THAT(result.out, HasSubstr("status 0")) << stopped;
  }
}

}  // namespace
}  // namespace tbprof::integration
