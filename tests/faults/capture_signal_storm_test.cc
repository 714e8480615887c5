// SPDX-License-Identifier: Apache-2.0
// Captures requested a thousand times a second, at every time of a run; and what the program notices of windows that
// open and close.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

// Sends from the start of its life to its end.
class Storm {
 public:
  explicit Storm(const Running& running)
      : thread_([this, &running] {
          while (!end_) {
            running.Signal(SIGUSR1);
            ++sent_;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~Storm() { Stop(); }
  int Stop() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
    return sent_;
  }

 private:
  std::atomic<bool> end_{false};
  std::atomic<int> sent_{0};
  std::thread thread_;
};

// From the start line, which names the pid to signal, to the end of the launcher.
TEST(CaptureSignal, ThousandSignalsASecond_KillNoProcess) {
  RunOptions options;
  options.tbprof = {"--window-duration=300ms"};
  const auto running = StartUnderTbprof({Program("notices_signals")}, options);
  ASSERT_TRUE(running->WaitForError("kill -USR1"));
  Storm storm(*running);
  ASSERT_TRUE(running->WaitForError("capture 3"));
  WriteFile(running->path() + "/stop", "");
  while (!running->Ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int sent = storm.Stop();
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0) << "signal " << result.signal() << " after " << sent << " sent\n" << result.AllPrinted();
  // The program has a handler of its own, and gets what was sent to the launcher alone; nothing else.
  EXPECT_THAT(result.out, testing::MatchesRegex("(signal 10: [0-9]+\n)?interrupted [0-9]+\n"));
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  // One after the other: each of them has a run of its own, and the run itself.
  EXPECT_GE(result.run_directories.size(), 4u);
  for (const std::string& directory : result.run_directories) {
    size_t profiles = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      profiles += entry.path().string().ends_with(".xplane.pb") ? 1 : 0;
    }
    EXPECT_EQ(profiles, 1u) << directory;
  }
  EXPECT_TRUE(result.Printed("still open")) << "the rest is refused, and reported";
}

// The same while the worker writes the last profile, and after the end of the command.
TEST(CaptureSignal, SignalsDuringTheConversion_KillNoProcess) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const auto running = StartUnderTbprof({Program("survive"), "300000", "return"}, options);
  ASSERT_TRUE(running->WaitForFact("returned "));
  Storm storm(*running);
  while (!running->Ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  storm.Stop();
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0) << "signal " << result.signal() << "\n" << result.AllPrinted();
  EXPECT_NE(result.profile, nullptr) << result.AllPrinted();
}

// A window is a word in shared memory: no signal, no interrupted call, however often.
TEST(Windows, ManyWindows_ProgramDoesNotNotice) {
  constexpr int kWindows = 20;
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=50ms", "--capture-signal=USR2"};
  const auto running = StartUnderTbprof({Program("notices_signals"), std::to_string(SIGUSR2)}, options);
  const auto target = running->WaitForNumber("pid");
  ASSERT_GT(target, 0);
  for (int i = 1; i <= kWindows; ++i) {
    running->Signal(SIGUSR2);
    ASSERT_TRUE(running->WaitForError("capture " + std::to_string(i) + ":")) << running->Err();
    const auto published = [&] {
      size_t count = 0;
      const std::string err = running->Err();
      for (size_t at = 0; (at = err.find("verified", at)) != std::string::npos; ++at) ++count;
      return count;
    };
    for (int j = 0; j < 6000 && published() < static_cast<size_t>(i); ++j) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_GE(published(), static_cast<size_t>(i));
  }
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "interrupted 0\n");
  EXPECT_EQ(result.run_directories.size(), static_cast<size_t>(kWindows));
}

}  // namespace
}  // namespace tbprof::integration
