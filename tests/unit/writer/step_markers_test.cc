// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_markers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tbprof {
namespace {

class StepMarkersTest : public testing::Test {
 protected:
  StepMarkersTest() {
    timeline_.processes.resize(2);
    Thread(0);
  }
  void Thread(uint32_t process) { timeline_.threads.emplace_back().process = process; }
  void Range(const std::string& name, int64_t start, int64_t end, uint16_t flags = 0, size_t thread = 0,
             EventFamily family = EventFamily::kAnnotation) {
    Event event;
    event.start_ps = start;
    event.duration_ps = end - start;
    event.flags = flags;
    event.type = static_cast<uint16_t>(timeline_.types.size());
    for (size_t i = 0; i < timeline_.types.size(); ++i) {
      if (timeline_.types[i].name == name) event.type = static_cast<uint16_t>(i);
    }
    if (event.type == timeline_.types.size()) timeline_.types.push_back({name, family});
    timeline_.threads[thread].events.push_back(event);
  }
  MarkedSteps Find(const std::string& expression = "", uint32_t process = 0) {
    return FindMarkedSteps(timeline_, process, expression);
  }

  Timeline timeline_;
};

TEST_F(StepMarkersTest, NoMarkers_HasNoSteps) {
  Range("forward", 0, 10);
  Range("epoll_wait", 20, 30, 0, 0, EventFamily::kIo);
  EXPECT_TRUE(Find().steps.empty());
  EXPECT_TRUE(Find("epoll").steps.empty()) << "a call is no annotation";
}

TEST_F(StepMarkersTest, UsualNamesThatCoverTheirTime_AreSteps) {
  for (const std::string name : {"iteration", "Step ", "ProfilerStep#", "global_step=", "call train_step "}) {
    timeline_.threads[0].events.clear();
    for (int i = 0; i < 5; ++i) Range(name + std::to_string(40 + i), i * 100, i * 100 + 95);
    const MarkedSteps found = Find();
    ASSERT_EQ(found.steps.size(), 5u) << name;
    EXPECT_EQ(found.steps[4].number, 44);
    EXPECT_EQ(found.steps[4].start_ps, 400);
    EXPECT_EQ(found.steps[4].end_ps, 495);
    EXPECT_GT(found.confidence, 0.5);
  }
}

// nvtxRangeStart: such ranges are on a line of their own, which neither waits nor works.
TEST_F(StepMarkersTest, StepsOfALineThatIsNoThread_AreTheMainThreads) {
  timeline_.threads[0].is_main = true;
  Thread(0);
  timeline_.threads[1].is_line = true;
  for (int i = 0; i < 5; ++i) Range("step", i * 100, i * 100 + 95, 0, 1);
  const MarkedSteps found = Find();
  ASSERT_EQ(found.steps.size(), 5u);
  for (const Step& step : found.steps) EXPECT_EQ(step.thread, 0u);
}

TEST_F(StepMarkersTest, OptimizersRange_IsNoStep) {
  for (int i = 0; i < 50; ++i) {
    Range("forward", i * 100, i * 100 + 40);
    Range("backward", i * 100 + 40, i * 100 + 80);
    Range("step", i * 100 + 80, i * 100 + 95);
  }
  EXPECT_TRUE(Find().steps.empty());
  EXPECT_EQ(Find("^step$").steps.size(), 50u) << "unless somebody says so";
}

TEST_F(StepMarkersTest, TwoRanges_AreTooFewUnlessNamed) {
  for (int i = 0; i < 2; ++i) Range("iteration", i * 100, i * 100 + 100);
  EXPECT_TRUE(Find().steps.empty());
  EXPECT_EQ(Find("iteration").steps.size(), 2u);
}

TEST_F(StepMarkersTest, FewMuchLongerOrShorterSteps_AreIrregular) {
  int64_t at = 0;
  for (int i = 0; i < 40; ++i) {
    const int64_t length = i == 0 ? 5000 : i == 20 ? 900 : i == 39 ? 2 : 100;
    Range("step " + std::to_string(i), at, at + length);
    at += length;
  }
  const MarkedSteps found = Find();
  ASSERT_EQ(found.steps.size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(found.steps[i].is_regular, i != 0 && i != 39) << i;
}

// Each fifth step is long: so is the program.
TEST_F(StepMarkersTest, ManyMuchLongerSteps_AreRegular) {
  int64_t at = 0;
  for (int i = 0; i < 40; ++i) {
    const int64_t length = i % 5 == 0 ? 5000 : 100;
    Range("step " + std::to_string(i), at, at + length);
    at += length;
  }
  for (const Step& step : Find().steps) EXPECT_TRUE(step.is_regular);
}

TEST_F(StepMarkersTest, NestedRanges_OuterWholeOnesAreSteps) {
  Range("step 1", 0, 100, Event::kClippedAtStart);
  Range("step 2", 100, 200);
  Range("step 3", 120, 180);
  Range("step 4", 200, 300);
  Range("step 5", 300, 350, Event::kClippedAtEnd);
  const MarkedSteps found = Find("step");
  ASSERT_EQ(found.steps.size(), 2u);
  EXPECT_EQ(found.steps[0].number, 2);
  EXPECT_EQ(found.steps[1].number, 4);
  EXPECT_EQ(found.steps[0].name, "step");
  EXPECT_EQ(found.source, "annotation `step`");
  EXPECT_EQ(found.confidence, 1);
}

TEST_F(StepMarkersTest, NumbersThatRepeat_AreReplaced) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 4; ++i) Range("batch " + std::to_string(i), (epoch * 4 + i) * 100, (epoch * 4 + i) * 100 + 99);
  }
  const MarkedSteps found = Find();
  ASSERT_EQ(found.steps.size(), 12u);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(found.steps[i].number, static_cast<int64_t>(i));
}

TEST_F(StepMarkersTest, Marks_StepsGoFromMarkToMark) {
  for (int i = 0; i < 4; ++i) Range("batch", i * 100, i * 100);
  const MarkedSteps found = Find();
  ASSERT_EQ(found.steps.size(), 3u);
  EXPECT_EQ(found.steps[2].start_ps, 200);
  EXPECT_EQ(found.steps[2].end_ps, 300);
}

TEST_F(StepMarkersTest, SeveralProcesses_ProcessOfInterestIsPreferred) {
  Thread(1);
  for (int i = 0; i < 9; ++i) Range("iteration", i * 10, i * 10 + 10, 0, 1);
  EXPECT_EQ(Find().steps.size(), 9u) << "another's, where it has none";
  for (int i = 0; i < 4; ++i) Range("iteration", i * 10, i * 10 + 10, 0, 0);
  EXPECT_EQ(Find().steps.size(), 4u);
  EXPECT_EQ(Find("", 1).steps.size(), 9u);
}

TEST_F(StepMarkersTest, NamedKernel_StepsGoFromKernelToKernel) {
  timeline_.types.push_back({"cudaLaunchKernel", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation});
  timeline_.gpu_streams.emplace_back();
  for (int i = 0; i < 8; ++i) {
    Event call;
    call.start_ps = i * 50;
    call.duration_ps = 10;
    call.value = i + 1;
    timeline_.threads[0].events.push_back(call);
    GpuEvent kernel;
    kernel.start_ps = call.start_ps + 20;
    kernel.duration_ps = 5;
    kernel.correlation = static_cast<uint64_t>(call.value);
    kernel.name = timeline_.strings.Intern(i % 2 == 0 ? "forward" : "adam");
    timeline_.gpu_streams[0].events.push_back(kernel);
  }
  const MarkedSteps found = Find("^adam$");
  ASSERT_EQ(found.steps.size(), 3u);
  EXPECT_EQ(found.steps[0].start_ps, 50);
  EXPECT_EQ(found.steps[0].end_ps, 150);
  EXPECT_EQ(found.source, "kernel `adam`");
  EXPECT_TRUE(Find("^sgd$").steps.empty());
  EXPECT_TRUE(Find().steps.empty()) << "nobody said that a kernel is a step";
}

TEST_F(StepMarkersTest, Expression_InvalidOrTooLong_IsRefused) {
  EXPECT_TRUE(CheckStepMarker("step [0-9]+").ok());
  EXPECT_FALSE(CheckStepMarker("step [0-9").ok());
  EXPECT_FALSE(CheckStepMarker(std::string(100'000, '(')).ok());
  // A pattern that takes exponential time with backtracking.
  Range(std::string(200, 'a') + "!", 0, 10);
  EXPECT_TRUE(Find("^(a|aa)+$").steps.empty());
  Range(std::string(100'000, 'a'), 0, 10);
  EXPECT_TRUE(Find("(a|aa)+$").steps.empty()) << "a name that no step has";
}

}  // namespace
}  // namespace tbprof
