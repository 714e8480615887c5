// SPDX-License-Identifier: Apache-2.0
// Which native samples belong to a line of Python, for groups of threads and phases.
#include "writer/convert/native_by_line.h"

#include <gtest/gtest.h>

#include "writer/convert/native_totals.h"
#include "writer/convert/thread_groups.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/summary_native.h"

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;
constexpr PythonLineKey kForward = {0, 11}, kBackward = {1, 21};

PythonRun MakeRun(uint32_t stack, int64_t first_ms, int64_t last_ms) {
  PythonRun run;
  run.first_ps = first_ms * kMs;
  run.last_ps = last_ms * kMs;
  run.from_ps = run.first_ps - 5 * kMs;
  run.to_ps = run.last_ps + 5 * kMs;
  run.period_ps = 10 * kMs;
  run.stack = stack;
  run.samples = static_cast<uint32_t>((last_ms - first_ms) / 10 + 1);
  return run;
}

class NativeByLineTest : public testing::Test {
 protected:
  NativeByLineTest() {
    timeline_.duration_ps = 1000 * kMs;
    timeline_.processes.emplace_back().name = "python3";
    for (const bool main : {true, false}) {
      Thread& thread = timeline_.threads.emplace_back();
      thread.is_main = main;
      thread.name = main ? "python3" : "worker-1";
    }
    const StringId file = timeline_.strings.Intern("/train.py");
    for (const char* name : {"forward", "backward"}) {
      timeline_.python.functions.push_back({timeline_.strings.Intern(name), file, timeline_.strings.Intern(name), 1});
    }
    // 1: forward:11, 2: backward:21, 3: forward:11 called by backward:21.
    timeline_.python.stacks = {{}, {0, 0, 11}, {0, 1, 21}, {2, 0, 11}};
    for (const char* name : {"gemm", "relu"}) {
      const StringId text = timeline_.strings.Intern(name);
      if (timeline_.native.stacks.empty()) timeline_.native.stacks.emplace_back();
      timeline_.native.stacks.push_back({0, text, timeline_.strings.Intern("libblas.so"), text});
    }
    timeline_.python.threads.emplace_back();
    timeline_.native.threads.emplace_back();
  }

  void Sample(double at_ms, uint32_t stack, size_t thread = 0) {
    timeline_.native.threads[thread].points.push_back({static_cast<int64_t>(at_ms * kMs), 10'000, stack});
  }

  // The native functions and samples of a line, like `gemm 3`, in the order of the stacks.
  std::string Of(PythonLineKey line, std::optional<SamplePhase> phase = std::nullopt) {
    const NativeByLine found =
        DivideNativeByLine(timeline_, {&timeline_.python.threads[0]}, SamplePhases(timeline_), phase);
    const auto of_line = found.find(line);
    if (of_line == found.end()) return "";
    std::string text;
    for (const NativeTally& tally : of_line->second) {
      text += timeline_.strings.Get(timeline_.native.stacks[tally.stack].function) + " " +
              std::to_string(tally.samples) + " ";
      EXPECT_EQ(tally.cpu_ps, static_cast<int64_t>(tally.samples) * 10 * kMs);
    }
    return text;
  }

  Timeline timeline_;
};

TEST_F(NativeByLineTest, NextToASampleAtALine_BelongsToIt) {
  timeline_.python.threads[0].runs = {MakeRun(1, 100, 140), MakeRun(2, 150, 200)};
  for (const double at : {99.6, 100.0, 100.4, 139.6, 150.4}) Sample(at, 1);
  Sample(200, 2);
  EXPECT_EQ(Of(kForward), "gemm 4 ");
  EXPECT_EQ(Of(kBackward), "gemm 1 relu 1 ");
}

// A loop may be at the same line in every sample. The times of samples within a run are not known.
TEST_F(NativeByLineTest, BetweenTwoSamplesAtOneLine_BelongsToNone) {
  timeline_.python.threads[0].runs = {MakeRun(1, 100, 140), MakeRun(1, 150, 150)};
  for (const double at : {99.4, 100.6, 105.0, 109.4, 110.0, 120.0, 145.0, 150.6, 300.0}) Sample(at, 1);
  EXPECT_EQ(Of(kForward), "");
}

TEST_F(NativeByLineTest, NextToTwoSamples_BelongsToTheNearer) {
  timeline_.python.threads[0].runs = {MakeRun(1, 100, 100), MakeRun(2, 101, 101)};
  timeline_.python.threads[0].runs[1].first_ps = timeline_.python.threads[0].runs[1].last_ps = 100'600'000'000;
  for (const double at : {100.2, 100.4, 100.5}) Sample(at, 1);
  EXPECT_EQ(Of(kForward), "gemm 1 ");
  EXPECT_EQ(Of(kBackward), "gemm 2 ");
}

TEST_F(NativeByLineTest, OneLineWithOtherCallers_IsOneLine) {
  timeline_.python.threads[0].runs = {MakeRun(1, 100, 100), MakeRun(3, 110, 110), MakeRun(0, 120, 120)};
  for (const double at : {100.0, 110.0, 120.0}) Sample(at, 1);
  EXPECT_EQ(Of(kForward), "gemm 2 ") << "and none of samples without frames";
}

TEST_F(NativeByLineTest, Phase_HasItsOwn) {
  timeline_.python.threads[0].runs = {MakeRun(1, 120, 120), MakeRun(1, 150, 150), MakeRun(1, 250, 250)};
  Step step;
  step.start_ps = 150 * kMs;
  step.end_ps = 250 * kMs;
  timeline_.steps = {step};
  timeline_.step_source = StepSource::kMarked;
  for (const double at : {120.0, 149.9, 150.0, 249.9, 250.0}) Sample(at, 1);
  EXPECT_EQ(Of(kForward, SamplePhase::kSteps), "gemm 2 ");
  EXPECT_EQ(Of(kForward, SamplePhase::kOutside), "gemm 3 ");
  EXPECT_EQ(Of(kForward), "gemm 5 ");
}

TEST_F(NativeByLineTest, ThreadWithoutNativeSamples_HasNone) {
  timeline_.python.threads[0].thread = 1;
  timeline_.python.threads[0].runs = {MakeRun(1, 100, 300)};
  Sample(150, 1);
  EXPECT_EQ(Of(kForward), "");
}

TEST_F(NativeByLineTest, Text_NamesAFunctionThatExplainsTheLine) {
  const NativeSums sums(timeline_.native);
  EXPECT_EQ(NativeOfLineText(timeline_, sums, {{1, 9, 9 * kMs}}), "") << "few samples";
  EXPECT_EQ(NativeOfLineText(timeline_, sums, {{0, 8, 80 * kMs}, {1, 2, 20 * kMs}}), "") << "a small part";
  EXPECT_EQ(NativeOfLineText(timeline_, sums, {{1, 25, 25 * kMs}, {2, 75, 75 * kMs}}), "native: 75 % relu");
  const auto json = NativeOfLineJson(timeline_, sums, {{1, 25, 25 * kMs}, {2, 75, 75 * kMs}});
  EXPECT_EQ(json["samples"], 100);
  EXPECT_EQ(json["top_self"][0]["function"], "relu");
  EXPECT_EQ(json["top_self"][1]["samples"], 25);
  EXPECT_TRUE(NativeOfLineJson(timeline_, sums, {}).is_null());
}

TEST_F(NativeByLineTest, Summary_HasGroupsOfThreadsAndTheirPhases) {
  timeline_.native.threads.emplace_back().thread = 1;
  Step step;
  step.start_ps = 150 * kMs;
  step.end_ps = 250 * kMs;
  timeline_.steps = {step};
  timeline_.step_source = StepSource::kMarked;
  for (const double at : {100.0, 160.0, 170.0}) Sample(at, 1);
  Sample(200, 2, 1);
  timeline_.native.threads[0].tallies = {{1, 3, 30 * kMs}};
  timeline_.native.threads[1].tallies = {{2, 1, 10 * kMs}};
  const auto native = NativeJson(timeline_);
  ASSERT_EQ(native["group_count"], 2);
  EXPECT_EQ(native["groups"][0]["threads"], "main");
  EXPECT_EQ(native["groups"][0]["samples"], 3);
  EXPECT_EQ(native["groups"][0]["phases"][0]["samples"], 2);
  EXPECT_EQ(native["groups"][0]["phases"][2]["samples"], 1);
  EXPECT_EQ(native["groups"][1]["threads"], "worker");
  EXPECT_EQ(native["groups"][1]["top_self"][0]["function"], "relu");
}

}  // namespace
}  // namespace tbprof
