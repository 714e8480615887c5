// SPDX-License-Identifier: Apache-2.0
//
// Spans from runs of stacks. A stack is written as the functions in it, the outermost first: "abc".
#include "writer/convert/python_spans.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::ElementsAre;

constexpr int64_t kPeriod = 10;

class PythonSpansTest : public testing::Test {
 protected:
  PythonSpansTest() {
    python_.stacks.resize(1);
    python_.functions.resize(26);
    python_.threads.resize(1);
  }
  uint32_t StackOf(const std::string& functions, int32_t line) {
    if (functions.empty()) return 0;
    const uint32_t parent = StackOf(functions.substr(0, functions.size() - 1), 1);
    python_.stacks.push_back({parent, static_cast<uint32_t>(functions.back() - 'a'), line});
    return static_cast<uint32_t>(python_.stacks.size() - 1);
  }
  // `line`: of the innermost function.
  void Run(int64_t first, int64_t last, uint32_t samples, const std::string& functions, int32_t line = 1) {
    PythonRun run;
    run.first_ps = first;
    run.last_ps = last;
    run.period_ps = kPeriod;
    run.samples = samples;
    run.stack = StackOf(functions, line);
    python_.threads[0].runs.push_back(run);
  }
  // `a 0+20 x3:7`: function, start, length, samples, line.
  std::vector<std::string> Spans(uint64_t most_bytes = 1'000'000, int64_t duration = 1'000'000) {
    SetExtents(duration, &python_.threads[0].runs);
    PythonSpans spans(strings_, &python_, most_bytes);
    spans.Add(0);
    bytes_ = spans.Finish();
    std::vector<std::string> out;
    for (const PythonSpan& span : python_.threads[0].spans) {
      out.push_back(std::string(1, static_cast<char>('a' + span.function)) + " " + std::to_string(span.start_ps) + "+" +
                    std::to_string(span.duration_ps) + " x" + std::to_string(span.samples) + ":" +
                    std::to_string(span.line));
    }
    return out;
  }

  StringTable strings_;
  PythonTimeline python_;
  uint64_t bytes_ = 0;
};

TEST_F(PythonSpansTest, EqualPrefixes_AreOneSpanEach) {
  Run(100, 120, 3, "ab");
  Run(130, 130, 1, "ac");
  Run(140, 150, 2, "ac", 9);
  EXPECT_THAT(Spans(), ElementsAre("a 95+60 x6:1", "b 95+30 x3:1", "c 125+30 x3:9"));
}

TEST_F(PythonSpansTest, FramesOfAnImport_AreLeftOutUnlessTheyAreTheInnermost) {
  python_.functions['i' - 'a'].file = strings_.Intern("<frozen importlib._bootstrap>");
  Run(100, 110, 2, "aiiib");
  Run(120, 120, 1, "aiii");
  EXPECT_THAT(Spans(), ElementsAre("a 95+30 x3:1", "b 95+20 x2:1", "i 115+10 x1:1"));
}

TEST_F(PythonSpansTest, FramesOfTheParent_AreNotTheWorkers) {
  python_.functions['w' - 'a'].file = strings_.Intern("/usr/lib/python3.11/multiprocessing/process.py");
  python_.functions['w' - 'a'].name = strings_.Intern("BaseProcess._bootstrap");
  Run(100, 110, 2, "abcwd");
  EXPECT_THAT(Spans(), ElementsAre("w 95+20 x2:1", "d 95+20 x2:1"));
}

TEST_F(PythonSpansTest, SameFunctionUnderAnotherCaller_IsAnotherSpan) {
  Run(100, 100, 1, "ac");
  Run(110, 110, 1, "bc");
  EXPECT_THAT(Spans(), ElementsAre("a 95+10 x1:1", "c 95+10 x1:1", "b 105+10 x1:1", "c 105+10 x1:1"));
}

TEST_F(PythonSpansTest, RecursiveFunction_HasASpanForEachFrame) {
  Run(100, 110, 2, "aaa");
  EXPECT_THAT(Spans(), ElementsAre("a 95+20 x2:1", "a 95+20 x2:1", "a 95+20 x2:1"));
  EXPECT_EQ(python_.threads[0].spans[0].depth, 0u);
  EXPECT_EQ(python_.threads[0].spans[2].depth, 2u);
}

TEST_F(PythonSpansTest, GapOfThreePeriods_IsBridgedAndALongerOneIsNot) {
  Run(100, 100, 1, "a");
  Run(130, 130, 1, "a");
  EXPECT_THAT(Spans(), ElementsAre("a 95+40 x2:1"));
  python_.threads[0] = {};
  Run(100, 100, 1, "a");
  Run(136, 136, 1, "a");
  EXPECT_THAT(Spans(), ElementsAre("a 95+10 x1:1", "a 131+10 x1:1"));
}

TEST_F(PythonSpansTest, RunsAtUnequalDistances_MeetInTheMiddle) {
  Run(100, 100, 1, "a");
  Run(114, 114, 1, "b");
  Run(120, 120, 1, "c");
  EXPECT_THAT(Spans(), ElementsAre("a 95+12 x1:1", "b 107+10 x1:1", "c 117+8 x1:1"));
}

TEST_F(PythonSpansTest, SampleWithoutFrames_EndsSpans) {
  Run(100, 100, 1, "a");
  Run(110, 110, 1, "");
  Run(120, 120, 1, "a");
  EXPECT_THAT(Spans(), ElementsAre("a 95+10 x1:1", "a 115+10 x1:1"));
}

TEST_F(PythonSpansTest, SamplesNearerThanAPeriod_DoNotOverlap) {
  Run(100, 100, 1, "a");
  Run(104, 104, 1, "b");
  EXPECT_THAT(Spans(), ElementsAre("a 95+7 x1:1", "b 102+7 x1:1"));
}

TEST_F(PythonSpansTest, SpansAreWithinTheCapture) {
  Run(2, 2, 1, "a");
  Run(12, 18, 1, "b");
  EXPECT_THAT(Spans(1'000'000, 20), ElementsAre("a 0+7 x1:1", "b 7+13 x1:1"));
}

TEST_F(PythonSpansTest, Budget_LeavesTheLongestAndCountsTheRest) {
  for (int i = 0; i < 1000; ++i) {
    const int64_t at = i * 1000;
    Run(at, at + 50, 6, "a");
    Run(at + 60, at + 60, 1, "b");
  }
  const std::vector<std::string> left = Spans(1000 * kPythonSpanBytes);
  EXPECT_LE(left.size(), 1000u);
  EXPECT_GE(left.size(), 900u);
  EXPECT_EQ(bytes_, left.size() * kPythonSpanBytes);
  EXPECT_EQ(python_.spans_left_out, 2000 - left.size());
  for (const std::string& span : left) EXPECT_EQ(span[0], 'a') << span;
  EXPECT_GE(python_.shortest_span_ps, kPeriod);
}

}  // namespace
}  // namespace tbprof
