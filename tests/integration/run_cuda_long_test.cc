// SPDX-License-Identifier: Apache-2.0
// Long runs with a CUPTI that gives kernels no valid times after many kernels (parcagpu#23), simulated by tests/sim.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "cuda_harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Running> StartLongRun(const std::string& modes) {
  RunOptions options = On("cuda13", modes);
  options.tbprof = {"--cuda=cupti", "--window=all", "--window-duration=300ms"};
  return StartUnderTbprof({Subject("large_graph"), "1000", "0", "100", "until", "stop"}, options);
}

// Starts a capture by a signal once `line` was printed.
testing::AssertionResult Capture(Running* running, const char* line) {
  if (!running->WaitForError(line)) return testing::AssertionFailure() << running->Err();
  running->Signal(SIGUSR1);
  if (!running->WaitForError("verified")) return testing::AssertionFailure() << running->Err();
  return testing::AssertionSuccess();
}

RunResult End(Running* running) {
  WriteFile(running->path() + "/stop", "");
  return running->Wait();
}

nlohmann::json GapsOf(const nlohmann::json& summary) { return summary["processes"][0]["gpu"]["gaps"]; }

std::vector<nlohmann::json> LimitedGaps(const nlohmann::json& summary) {
  std::vector<nlohmann::json> limited;
  for (const auto& gap : GapsOf(summary)) {
    if (gap.value("reason", "").starts_with("limited:")) limited.push_back(gap);
  }
  return limited;
}

// The capture requested by a signal: the only profile while the program runs.
nlohmann::json SummaryOfCapture(const Running& running) {
  for (const auto& run : std::filesystem::directory_iterator(running.logdir() + "/plugins/profile")) {
    return nlohmann::json::parse(ReadFile(run.path() / "summary.json"), nullptr, false);
  }
  return {};
}

int64_t Sum(const nlohmann::json& summary, const char* of_gpus) {
  int64_t sum = 0;
  for (const auto& gpu : summary["gpus"]) sum += gpu.value(of_gpus, int64_t{0});
  return sum;
}

TEST_F(Cuda, InvalidTimes_ComeAgainAfterAllRestarts_RecordingIsLimitedToWindows) {
  const auto running = StartLongRun("bad_times_after=1000,bad_times_turns=9");
  ASSERT_TRUE(Capture(running.get(), "no valid kernel times"));
  // The kinds were enabled anew, before the window began.
  const nlohmann::json captured = SummaryOfCapture(*running);
  EXPECT_GT(Sum(captured, "kernels"), 0) << captured;
  EXPECT_EQ(Sum(captured, "untimed"), 0) << captured;
  const RunResult run = End(running.get());
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  // One gap before the capture and one after it.
  const std::vector<nlohmann::json> limited = LimitedGaps(run.summary);
  ASSERT_EQ(limited.size(), 2u) << GapsOf(run.summary);
  for (const auto& gap : limited) EXPECT_THAT(gap.value("remedy", ""), HasSubstr("tbprof capture"));
  EXPECT_THAT(PageText(*run.profile), HasSubstr("no valid times again after 8 restarts"));
  EXPECT_TRUE(run.Printed("(limited:")) << run.AllPrinted();
  EXPECT_LT(limited[0].value("end_s", 0.0), limited[1].value("start_s", 0.0));
}

// If a restart does not help, the capture continues: kernels are counted, and reported as untimed.
TEST_F(Cuda, InvalidTimes_InACaptureToo_CaptureCountsItsKernels) {
  const auto running = StartLongRun("bad_times_after=1,bad_times_far");
  ASSERT_TRUE(Capture(running.get(), "no valid kernel times"));
  const nlohmann::json captured = SummaryOfCapture(*running);
  EXPECT_GT(Sum(captured, "untimed"), 0) << captured;
  EXPECT_EQ(End(running.get()).code(), 0);
}

TEST_F(Cuda, ValidTimes_LongRunWithACapture_IsNotLimited) {
  const auto running = StartLongRun("");
  ASSERT_TRUE(Capture(running.get(), "capture: kill"));
  const RunResult run = End(running.get());
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_TRUE(GapsOf(run.summary).empty()) << GapsOf(run.summary);
  EXPECT_FALSE(run.Printed("no valid kernel times")) << run.AllPrinted();
  EXPECT_EQ(Sum(run.summary, "untimed"), 0);
}

}  // namespace
}  // namespace tbprof::integration
