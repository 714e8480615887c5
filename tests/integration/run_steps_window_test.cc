// SPDX-License-Identifier: Apache-2.0
// --window=steps=A:B: these steps and no others, as soon as they are over.
#include <gmock/gmock.h>

#include <set>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::multiset<int64_t> StepNumbers(const Profile& profile) {
  std::multiset<int64_t> numbers;
  for (const Event& event : profile.events()) {
    if (event.line == "steps" && event.Has("step_num")) numbers.insert(event.Number("step_num"));
  }
  return numbers;
}

void ExpectSteps(const RunResult& result, int64_t first, int64_t last) {
  ASSERT_NE(result.profile, nullptr);
  const int64_t count = last - first + 1;
  EXPECT_EQ(result.summary["steps"]["count"], count);
  const std::multiset<int64_t> numbers = StepNumbers(*result.profile);
  for (int64_t step = first; step <= last; ++step) EXPECT_EQ(numbers.count(step), 1u) << step;
  // The rest of the neighbouring steps at both borders is shown, but not as steps.
  EXPECT_LE(static_cast<int64_t>(numbers.size()), count + 2);
  // Only calls inside the steps are shown: two naps per step.
  EXPECT_GE(result.profile->Count("usleep"), 2 * count);
  EXPECT_LE(result.profile->Count("usleep"), 2 * count + 4);
}

TEST(StepsWindow, CommandContinues_IsPublished) {
  RunOptions options;
  options.tbprof = {"--window=steps=10:19"};
  const auto running = StartUnderTbprof({Program("marked_steps"), "0"}, options);
  ASSERT_TRUE(running->WaitForError("verified")) << running->Err();
  EXPECT_FALSE(running->Ended());
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1));
  ExpectSteps(result, 10, 19);
  EXPECT_EQ(result.summary["command"]["running"], true);
}

TEST(StepsWindow, CommandEndsBeforeItsCheck_IsPublished) {
  RunOptions options;
  options.tbprof = {"--window=steps=3:7"};
  const auto running = StartUnderTbprof({Program("marked_steps"), "20"}, options);
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1));
  ExpectSteps(result, 3, 7);
}

TEST(StepsWindow, StepsNotReached_IsReportedAndTheRunShown) {
  RunOptions options;
  options.tbprof = {"--window=steps=30:39"};
  const auto running = StartUnderTbprof({Program("marked_steps"), "20"}, options);
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  EXPECT_THAT(result.AllPrinted(), HasSubstr("the command ended before step 39 (the last was 19)"));
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(result.summary["steps"]["count"], 20);
  EXPECT_TRUE(result.profile->HasWarning("the command ended before step 39"));
}

}  // namespace
}  // namespace tbprof::integration
