// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/gpu_calls.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "writer/outputs/flow_ids.h"

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kUs = 1'000'000;

// A thread that launches, and a device with one stream.
class GpuCallsTest : public testing::Test {
 protected:
  GpuCallsTest() {
    timeline_.processes.resize(1);
    timeline_.gpu_devices.resize(1);
    timeline_.gpu_streams.resize(1);
    timeline_.threads.resize(2);
    EventType type;
    type.family = EventFamily::kGpu;
    type.value = ValueKind::kCorrelation;
    timeline_.types = {type};
    kernel_ = timeline_.strings.Intern("gemm");
  }

  void Step(int64_t start_us, int64_t end_us) {
    StepEvent step;
    step.start_ps = start_us * kUs;
    step.end_ps = end_us * kUs;
    step.is_marker = true;
    steps_.push_back(step);
  }

  // Returns the number of the call; `thread` 1 is not on the counted plane.
  uint64_t Launch(int64_t call_us, int64_t start_us, int64_t end_us, uint32_t thread = 0) {
    const uint64_t number = Work(start_us, end_us);
    Event event;
    event.start_ps = call_us * kUs;
    event.duration_ps = kUs / 2;
    event.value = static_cast<int64_t>(number);
    timeline_.threads[thread].events.push_back(event);
    return number;
  }

  // Work whose call is not recorded.
  uint64_t Work(int64_t start_us, int64_t end_us) {
    GpuEvent event;
    event.start_ps = start_us * kUs;
    event.duration_ps = (end_us - start_us) * kUs;
    event.correlation = ++last_;
    event.name = kernel_;
    timeline_.gpu_streams[0].events.push_back(event);
    return last_;
  }

  void MemorySample(int64_t at_us) {
    if (timeline_.counters.empty()) timeline_.counters.emplace_back().device = 0;
    timeline_.counters[0].samples.push_back({at_us * kUs, 1});
  }

  GpuCalls Calls() {
    HostPlane counted;
    counted.threads = {0};
    return GpuCalls(timeline_, counted, steps_);
  }

  static OutsideSpan Span(int64_t start_us, int64_t end_us) { return {start_us * kUs - 1, end_us * kUs}; }

  Timeline timeline_;
  std::vector<StepEvent> steps_;
  StringId kernel_ = 0;
  uint64_t last_ = 0;
};

TEST_F(GpuCallsTest, WorkBetweenSteps_EndsTheStepBeforeIt) {
  Step(0, 10), Step(20, 30);
  const uint64_t first = Launch(1, 2, 5);
  const uint64_t outside = Launch(12, 14, 16), also = Launch(13, 16, 18);
  const uint64_t second = Launch(21, 22, 25);
  const uint64_t last = Launch(31, 32, 33);
  const GpuCalls calls = Calls();
  EXPECT_TRUE(calls.HasSteps(0));
  EXPECT_THAT(calls.OutsideOf(0), ElementsAre(Span(14, 18), Span(32, 33)));
  for (const uint64_t number : {first, second}) {
    EXPECT_TRUE(calls.IsInStep(number));
    EXPECT_FALSE(calls.IsOutside(number));
  }
  for (const uint64_t number : {outside, also, last}) {
    EXPECT_FALSE(calls.IsInStep(number));
    EXPECT_TRUE(calls.IsOutside(number));
  }
}

TEST_F(GpuCallsTest, WorkAmongTheWorkOfAStep_IsNotCountedAndDoesNotEndIt) {
  Step(0, 10), Step(20, 30);
  Launch(1, 2, 25);
  const uint64_t outside = Launch(12, 14, 16);
  Launch(9, 26, 27);
  Launch(21, 28, 29);
  const GpuCalls calls = Calls();
  EXPECT_TRUE(calls.IsOutside(outside));
  EXPECT_THAT(calls.OutsideOf(0), IsEmpty());
  EXPECT_FALSE(calls.AnyOutside());
}

// A step's time ends with its work, not with a later sample of memory.
TEST_F(GpuCallsTest, MemorySample_EndsTheStepBeforeIt) {
  Step(0, 10), Step(20, 30);
  MemorySample(0), MemorySample(3), MemorySample(15), MemorySample(23);
  Launch(1, 2, 5);
  Launch(21, 22, 25);
  EXPECT_THAT(Calls().OutsideOf(0), ElementsAre(Span(15, 15)));
}

TEST_F(GpuCallsTest, WorkWithoutACall_StaysWithTheWorkBeforeIt) {
  Step(0, 10), Step(20, 30);
  Launch(1, 2, 5);
  const uint64_t in_step = Work(3, 4);
  Launch(12, 14, 16);
  const uint64_t outside = Work(17, 18);
  Launch(21, 22, 25);
  // Of a process whose calls are on another plane.
  const uint64_t helper = Launch(22, 23, 24, 1);
  const GpuCalls calls = Calls();
  EXPECT_FALSE(calls.IsOutside(in_step));
  EXPECT_TRUE(calls.IsOutside(outside));
  EXPECT_FALSE(calls.IsOutside(helper));
  EXPECT_THAT(calls.OutsideOf(0), ElementsAre(Span(14, 18)));
}

TEST_F(GpuCallsTest, BeforeTheFirstStep_ThereIsNoStepToEnd) {
  Step(10, 20);
  const uint64_t before = Launch(1, 2, 5);
  MemorySample(6);
  Launch(11, 12, 13);
  const GpuCalls calls = Calls();
  EXPECT_TRUE(calls.IsOutside(before));
  EXPECT_THAT(calls.OutsideOf(0), IsEmpty());
}

// Its plane is not one that the reader counts.
TEST_F(GpuCallsTest, DeviceWithoutWorkInSteps_IsLeftAsItIs) {
  Step(10, 20);
  const uint64_t before = Launch(1, 2, 5);
  const GpuCalls calls = Calls();
  EXPECT_FALSE(calls.HasSteps(0));
  EXPECT_FALSE(calls.IsOutside(before));
  EXPECT_THAT(calls.OutsideOf(0), IsEmpty());
}

TEST(FlowIds, BothEndsOfAnArrow_HaveItsIdAndNoOtherArrowOfTheRunHasIt) {
  FlowIds one("node1_r0"), other("node1_r1");
  EXPECT_EQ(one.Value(7, true) >> 2, one.Value(7, false) >> 2);
  EXPECT_EQ(one.ValueOfCall(7, true) >> 2, one.ValueOfCall(7, false) >> 2);
  EXPECT_EQ(one.Value(7, true) & 3, 2u);
  EXPECT_EQ(one.ValueOfCall(7, false) & 3, 1u);
  EXPECT_EQ(one.Value(7, true) >> 58, 0u);
  EXPECT_EQ(one.ValueOfCall(7, true) >> 58, 9u);
  constexpr uint64_t kId = (uint64_t{1} << 58) - 4;
  EXPECT_NE(one.Value(1, true) & kId, one.ValueOfCall(1, true) & kId);
  EXPECT_NE(one.Value(7, true) & kId, other.Value(7, true) & kId);
  EXPECT_NE(one.ValueOfCall(7, true), other.ValueOfCall(7, true));
}

}  // namespace
}  // namespace tbprof
