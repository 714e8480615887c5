// SPDX-License-Identifier: Apache-2.0
// SIGUSR1 sent to the target itself: it starts a capture where it would have ended the program, and the program notices
// nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

RunOptions OnRequest(std::vector<std::string> more = {}) {
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=200ms"};
  for (std::string& option : more) options.tbprof.push_back(std::move(option));
  return options;
}

void Stop(const Running& running) { WriteFile(running.path() + "/stop", ""); }

TEST(CaptureSignal, TargetWithDefaultAction_IsACapture) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, OnRequest());
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  ASSERT_EQ(kill(target, SIGUSR1), 0);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  EXPECT_FALSE(running->Ended());
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23) << result.AllPrinted();
  EXPECT_EQ(result.out, "finished\n");
  ASSERT_THAT(result.run_directories, SizeIs(1));
  EXPECT_GT(result.profile->Count("usleep"), 3);
}

TEST(CaptureSignal, HundredSignals_AreOneCapture) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, OnRequest({"--window-duration=1s"}));
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(kill(target, SIGUSR1), 0);
    // Standard signals do not queue: wait until this one has been taken.
    const std::string status = "/proc/" + std::to_string(target) + "/status";
    while (ReadFile(status).find("ShdPnd:\t0000000000000000") == std::string::npos) usleep(100);
  }
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
}

TEST(CaptureSignal, ForkChild_IsACapture) {
  const auto running = StartUnderTbprof({"/bin/sh", "-c", Program("waits_for_signals") + " 60; exit 4"}, OnRequest());
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  ASSERT_EQ(kill(target, SIGUSR1), 0);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 4);
  EXPECT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
}

// SIGUSR1 reaches the launcher and the target, as by `pkill -f train.py`. /proc shows the signal as caught by the
// target: the launcher must not forward it, as the handler is tbprof's own.
TEST(CaptureSignal, LauncherAndProgram_AreOneCapture) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, OnRequest({"--window-duration=500ms"}));
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR1);
  ASSERT_EQ(kill(target, SIGUSR1), 0);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
}

TEST(CaptureSignal, Launcher_IsNotForwardedToOurHandler) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, OnRequest({"--window-duration=500ms"}));
  ASSERT_TRUE(running->WaitForFact("warm "));
  running->Signal(SIGUSR1);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23);
  EXPECT_FALSE(result.Printed("still open")) << result.AllPrinted();
  EXPECT_THAT(result.run_directories, SizeIs(1));
}

TEST(CaptureSignal, ProgramsOwnHandler_IsCalled) {
  const auto running =
      StartUnderTbprof({Program("waits_for_signals"), "60", "handle"}, OnRequest({"--capture-signal=USR2"}));
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  ASSERT_EQ(kill(target, SIGUSR2), 0);
  ASSERT_TRUE(running->WaitForFact("signal 12\n"));
  Stop(*running);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.out, "signal 12: 1\nfinished\n");
  EXPECT_THAT(result.run_directories, SizeIs(0)) << result.AllPrinted();
}

TEST(CaptureSignal, None_InstallsNothing) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, OnRequest({"--capture-signal=none"}));
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  ASSERT_EQ(kill(target, SIGUSR1), 0);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.signal(), SIGUSR1);
}

TEST(CaptureSignal, IgnoredSignal_StaysIgnored) {
  const auto running =
      StartUnderTbprof({"/bin/sh", "-c", "trap '' USR1; exec " + Program("waits_for_signals") + " 60"}, OnRequest());
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  const std::string status = ReadFile("/proc/" + std::to_string(target) + "/status");
  EXPECT_THAT(status, HasSubstr("SigIgn:\t0000000000000200"));
  Stop(*running);
  EXPECT_EQ(running->Wait().code(), 23);
}

TEST(CaptureSignal, Program_SeesTheDefault) {
  const Pair pair = RunBoth(Program("default_signal"), {"shows"});
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.bare.code(), 7);
  EXPECT_THAT(pair.bare.out, HasSubstr("at first: 0 default flags 0 restorer 0"));
}

TEST(CaptureSignal, ProgramSignalsItself_Ends) {
  for (const std::string what : {"raises", "timer", "exec"}) {
    const Pair pair = RunBoth(Program("default_signal"), {what});
    EXPECT_TRUE(pair.Same()) << what;
    EXPECT_EQ(pair.profiled.signal(), SIGUSR1) << what;
  }
}

TEST(CaptureSignal, ProcessesSignalEachOther_End) {
  for (const std::string what : {"child", "sibling"}) {
    const Pair pair = RunBoth(Program("default_signal"), {what});
    EXPECT_TRUE(pair.Same()) << what;
    EXPECT_THAT(pair.profiled.out, HasSubstr("ended by signal 10")) << what;
  }
}

TEST(CaptureSignal, TimeoutSendsIt_CommandEnds) {
  RunOptions options;
  const Pair pair = RunBoth({"/usr/bin/timeout", "-s", "USR1", "0.2", "/bin/sh", "-c", "sleep 60"}, options);
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 124);
}

TEST(CaptureSignal, SignalDuringRead_ReadContinues) {
  const auto running = StartUnderTbprof(
      {"/bin/sh", "-c", "mkfifo fifo && exec " + Program("default_signal") + " restarts"}, OnRequest());
  const std::string fifo = running->path() + "/fifo";
  int fd = -1;
  for (int i = 0; i < 30000 && fd < 0; ++i) {
    fd = open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // fails until the program has it open
    if (fd < 0) usleep(1000);
  }
  ASSERT_GE(fd, 0);
  const auto target = static_cast<pid_t>(running->WaitForNumber("pid"));
  ASSERT_EQ(kill(target, SIGUSR1), 0);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  ASSERT_EQ(write(fd, "x", 1), 1);
  close(fd);
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "read 1 x\n");
}

TEST(CaptureSignal, Python_SeesTheDefaultAndReplacesIt) {
  const std::string script =
      "import os, signal\n"
      "print(signal.getsignal(signal.SIGUSR1))\n"
      "print(signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True)))\n"
      "os.kill(os.getpid(), signal.SIGUSR1)\n"
      "print(signal.signal(signal.SIGUSR1, signal.SIG_DFL).__name__)\n"
      "print(signal.getsignal(signal.SIGUSR1), flush=True)\n"
      "os.kill(os.getpid(), signal.SIGUSR1)\n"
      "print('not reached')\n";
  RunOptions options;
  const Pair pair = RunBoth({"/usr/bin/python3", "-c", script}, options);
  EXPECT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.signal(), SIGUSR1);
  EXPECT_THAT(pair.profiled.out, HasSubstr("handled"));
}

}  // namespace
}  // namespace tbprof::integration
