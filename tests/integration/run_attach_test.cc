// SPDX-License-Identifier: Apache-2.0
// `tbprof attach`: a program that was started without tbprof is sampled, and goes on as before.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "python_commands.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

RunResult AttachTo(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"attach", "--logdir=@LOGDIR@"};
  all.insert(all.end(), words.begin(), words.end());
  return RunTbprof(all);
}

class Attach : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string scope = ReadFile("/proc/sys/kernel/yama/ptrace_scope");
    if (!scope.empty() && scope[0] != '0' && geteuid() != 0) GTEST_SKIP() << "kernel.yama.ptrace_scope=" << scope;
  }
};

// A program of tests/programs without tbprof, and its pid.
struct Bare {
  explicit Bare(std::vector<std::string> command) : running(Running::Start(command, {})) {
    pid = running->WaitForNumber("pid");
  }
  RunResult Stop() {
    WriteFile(running->path() + "/stop", "");
    return running->Wait();
  }
  std::string Pid() const { return std::to_string(pid); }

  std::unique_ptr<Running> running;
  int64_t pid = 0;
};

TEST_F(Attach, NativeProgram_HasItsWaitAndWhoHoldsTheLock_AndGoesOn) {
  Bare bare({Program("contends")});
  const RunResult run = AttachTo({"--duration=2s", bare.Pid()});
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  ASSERT_THAT(run.run_directories, SizeIs(1)) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("verified")) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("waits for a contended lock")) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("blocker: thread holder, in clock_nanosleep (sampled)")) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("still running")) << run.AllPrinted();
  EXPECT_EQ(run.summary["command"]["attached"], true);
  EXPECT_EQ(run.summary["command"]["exit_code"], nullptr);
  const std::vector<Event> waits = run.profile->Named("pthread_mutex_lock (sampled)");
  ASSERT_FALSE(waits.empty());
  EXPECT_THAT(waits[0].Stat("call_site"), HasSubstr("TakeTill"));
  const RunResult check = RunTbprof({"check", run.logdir});
  EXPECT_EQ(check.code(), 0) << check.out << check.AllPrinted();
  const RunResult stopped = bare.Stop();
  EXPECT_EQ(stopped.code(), 23);
  EXPECT_EQ(stopped.out, "stopped\n");
}

// Two threads that wait for each other, and the main thread for both.
constexpr char kDeadlock[] =
    "import threading\n"
    "a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(3)\n"
    "def ingest():\n"
    "    with a:\n"
    "        both.wait()\n"
    "        with b: pass\n"
    "def flush():\n"
    "    with b:\n"
    "        both.wait()\n"
    "        with a: pass\n"
    "threads = [threading.Thread(target=f, name=f.__name__) for f in (ingest, flush)]\n"
    "for one in threads: one.start()\n"
    "both.wait()\n"
    "with open('facts', 'a') as facts: facts.write('ready 1\\n')\n"
    "for one in threads: one.join()\n";

TEST_F(Attach, Deadlock_HasEachThreadsLine) {
  const std::vector<std::string> pythons = InstalledPythons();
  if (pythons.empty()) GTEST_SKIP() << "no Python";
  const TemporaryDirectory directory;
  WriteFile(directory / "job.py", kDeadlock);
  RunOptions options;
  options.directory = directory.path();
  const auto job = Running::Start({OldestAndNewest(pythons).back(), "job.py"}, options);
  while (access((directory / "facts").c_str(), F_OK) != 0) usleep(10'000);
  const RunResult run = AttachTo({"--duration=2s", std::to_string(job->pid())});
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("if it should run, it hangs")) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("hangs: thread ingest, in sem_wait (sampled) at job.py:6 ingest") ||
              run.Printed("hangs: thread ingest, in futex (sampled) at job.py:6 ingest"))
      << run.AllPrinted();
  EXPECT_EQ(run.summary["verdict"]["hangs"].size(), 3u) << run.AllPrinted();
  EXPECT_FALSE(job->Ended());
}

// Under tbprof run, a capture says the same; the waits are recorded, not sampled.
TEST(CaptureOfADeadlock, HasEachThreadsLine) {
  const std::vector<std::string> pythons = InstalledPythons();
  if (pythons.empty()) GTEST_SKIP() << "no Python";
  const TemporaryDirectory directory;
  WriteFile(directory / "job.py", kDeadlock);
  RunOptions options;
  options.directory = directory.path();
  options.tbprof = {"--window-duration=2s"};
  const auto running = StartUnderTbprof({OldestAndNewest(pythons).back(), "job.py"}, options);
  while (access((directory / "facts").c_str(), F_OK) != 0) usleep(10'000);
  running->Signal(SIGUSR1);
  EXPECT_TRUE(running->WaitForError("job.py:10 flush")) << running->Err();
  EXPECT_THAT(running->Err(), HasSubstr("hangs: main thread, "));
  EXPECT_THAT(running->Err(), HasSubstr("job.py:6 ingest"));
  running->Signal(SIGTERM);
  EXPECT_EQ(running->Wait().signal(), SIGTERM);
}

TEST_F(Attach, StoppedProcess_IsCalledSo) {
  Bare bare({Program("contends")});
  ASSERT_EQ(kill(static_cast<pid_t>(bare.pid), SIGSTOP), 0);
  while (ReadFile("/proc/" + bare.Pid() + "/stat").find(") T ") == std::string::npos) usleep(1000);
  const RunResult run = AttachTo({"--duration=200ms", bare.Pid()});
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("is stopped by a signal or a debugger")) << run.AllPrinted();
  ASSERT_EQ(kill(static_cast<pid_t>(bare.pid), SIGCONT), 0);
  EXPECT_EQ(bare.Stop().code(), 23);
}

TEST_F(Attach, Children_AreSampledUnlessOnlyTheProcessIsWanted) {
  Bare bare({Program("contends"), "3"});
  const RunResult all = AttachTo({"--duration=1s", bare.Pid()});
  EXPECT_EQ(all.summary["processes"].size(), 4u) << all.AllPrinted();
  EXPECT_TRUE(all.Printed("and 3 descendants")) << all.AllPrinted();
  const RunResult one = AttachTo({"--duration=1s", "--follow=none", bare.Pid()});
  EXPECT_EQ(one.summary["processes"].size(), 1u) << one.AllPrinted();
  EXPECT_EQ(bare.Stop().code(), 23);
}

TEST_F(Attach, ProcessThatEnds_EndsTheSampling) {
  Bare bare({Program("contends")});
  const auto attach = Running::Start({Tbprof(), "attach", "--logdir=@LOGDIR@", "--duration=10m", bare.Pid()}, {});
  ASSERT_TRUE(attach->WaitForError("sampling ")) << attach->Err();
  // Something of it is sampled before it ends.
  usleep(500'000);
  EXPECT_EQ(bare.Stop().code(), 23);
  const RunResult run = attach->Wait();
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("ended while it was sampled")) << run.AllPrinted();
  EXPECT_THAT(run.run_directories, SizeIs(1));
}

TEST_F(Attach, Interrupt_EndsTheSampling_AndTheProfileIsWritten) {
  Bare bare({Program("contends")});
  const auto attach = Running::Start({Tbprof(), "attach", "--logdir=@LOGDIR@", "--duration=10m", bare.Pid()}, {});
  ASSERT_TRUE(attach->WaitForError("sampling ")) << attach->Err();
  usleep(500'000);
  attach->Signal(SIGINT);
  const RunResult run = attach->Wait();
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_TRUE(run.Printed("verified")) << run.AllPrinted();
  EXPECT_FALSE(bare.running->Ended());
  EXPECT_EQ(bare.Stop().code(), 23);
}

TEST_F(Attach, Python_HasItsLinesAndItsSleep) {
  const std::vector<std::string> pythons = InstalledPythons();
  if (pythons.empty()) GTEST_SKIP() << "no Python";
  for (const std::string& python : OldestAndNewest(pythons)) {
    SCOPED_TRACE(python);
    const TemporaryDirectory directory;
    WriteFile(directory / "job.py",
              "import os, sys, time\n"
              "def load():\n"
              "    time.sleep(0.05)\n"
              "def step():\n"
              "    return sum(i * i for i in range(20000))\n"
              "with open('facts', 'a') as facts: facts.write('ready 1\\n')\n"
              "while not os.path.exists('stop'):\n"
              "    load()\n"
              "    step()\n"
              "print('stopped')\n");
    RunOptions options;
    options.directory = directory.path();
    const auto job = Running::Start({python, "job.py"}, options);
    while (access((directory / "facts").c_str(), F_OK) != 0) usleep(10'000);
    const RunResult run = AttachTo({"--duration=3s", std::to_string(job->pid())});
    EXPECT_EQ(run.code(), 0) << run.AllPrinted();
    EXPECT_TRUE(run.Printed("sleeps, at job.py:3 load")) << run.AllPrinted();
    EXPECT_TRUE(run.Printed("job.py:3 load")) << run.AllPrinted();
    EXPECT_GT(run.profile->Count("clock_nanosleep (sampled)") + run.profile->Count("select (sampled)") +
                  run.profile->Count("pselect (sampled)"),
              5)
        << run.AllPrinted();
    WriteFile(directory / "stop", "");
    const RunResult stopped = job->Wait();
    EXPECT_EQ(stopped.code(), 0);
    EXPECT_EQ(stopped.out, "stopped\n");
  }
}

TEST_F(Attach, SeveralProcesses_AreOneProfile) {
  Bare one({Program("contends")}), other({Program("waits_for_signals"), "600"});
  const RunResult run = AttachTo({"--duration=1s", one.Pid(), other.Pid()});
  EXPECT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_EQ(run.summary["processes"].size(), 2u);
  EXPECT_EQ(one.Stop().code(), 23);
  EXPECT_EQ(other.Stop().code(), 23);
}

TEST_F(Attach, WhatCannotBeSampled_IsOneLine) {
  const auto line = [](const std::vector<std::string>& words) {
    const RunResult run = AttachTo(words);
    EXPECT_EQ(run.code(), 125) << run.AllPrinted();
    EXPECT_THAT(run.run_directories, IsEmpty());
    EXPECT_THAT(run.printed, SizeIs(1)) << run.AllPrinted();
    return run.AllPrinted();
  };
  EXPECT_THAT(line({}), HasSubstr("attach needs a process"));
  EXPECT_THAT(line({"train.py"}), HasSubstr("`train.py` is no process id"));
  EXPECT_THAT(line({"4194399"}), HasSubstr("there is no process 4194399"));
  const auto recorded = StartUnderTbprof({Program("waits_for_signals"), "600"});
  const std::string pid = std::to_string(recorded->WaitForNumber("pid"));
  EXPECT_THAT(line({pid}), HasSubstr("runs under `tbprof run`: take a capture with tbprof capture " + pid));
  const std::string launcher = std::to_string(recorded->pid());
  EXPECT_THAT(line({launcher}), HasSubstr("is tbprof itself: take a capture with tbprof capture " + launcher));
  WriteFile(recorded->path() + "/stop", "");
  EXPECT_EQ(recorded->Wait().code(), 23);
}

TEST_F(Attach, CaptureOfAProcessWithoutTbprof_NamesAttach) {
  Bare bare({Program("contends")});
  const RunResult run = RunTbprof({"capture", "--logdir=@LOGDIR@", bare.Pid()});
  EXPECT_EQ(run.code(), 125);
  EXPECT_TRUE(run.Printed("tbprof attach " + bare.Pid())) << run.AllPrinted();
  EXPECT_EQ(bare.Stop().code(), 23);
}

}  // namespace
}  // namespace tbprof::integration
