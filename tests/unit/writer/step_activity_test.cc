// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "writer/steps/inferred_steps.h"

namespace tbprof {
namespace {

constexpr int64_t kUs = 1'000'000, kMs = 1000 * kUs;

// A process whose main thread only waits for other threads.
class StepActivityTest : public testing::Test {
 protected:
  enum Type : uint16_t { kJoin, kWait, kAllocate, kFree, kRead, kSleep };
  StepActivityTest() {
    timeline_.processes.emplace_back().is_command = true;
    timeline_.types = {{"pthread_join", EventFamily::kLock},
                       {"pthread_cond_wait", EventFamily::kLock},
                       {"malloc", EventFamily::kMemory, ObjectKind::kAddress, ValueKind::kBytes},
                       {"free", EventFamily::kMemory, ObjectKind::kAddress, ValueKind::kBytes},
                       {"read", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes},
                       {"usleep", EventFamily::kSleep}};
    for (int i = 0; i < 4; ++i) timeline_.threads.emplace_back().line_id = static_cast<uint64_t>(i) + 1;
    timeline_.threads[0].is_main = true;
  }

  void Call(size_t thread, Type type, int64_t at, int64_t length, StringId site, int64_t value = 0) {
    timeline_.threads[thread].events.push_back(
        {.start_ps = at, .duration_ps = length, .value = value, .call_site = site, .type = type});
  }
  // Waits of thread 3 at random times.
  void WaitAtRandom(int64_t until, double mean_ps, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> gap(1 / mean_ps);
    for (int64_t at = 0; at < until; at += static_cast<int64_t>(gap(random)) + kUs) {
      Call(3, kWait, at, 20 * kUs, 90 + static_cast<StringId>(random() % 3));
    }
  }
  void Sort() {
    for (Thread& thread : timeline_.threads) {
      std::stable_sort(thread.events.begin(), thread.events.end(), [](const Event& a, const Event& b) {
        return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
      });
      for (const Event& event : thread.events) {
        timeline_.duration_ps = std::max(timeline_.duration_ps, event.start_ps + event.duration_ps);
      }
    }
  }
  // A step allocates its memory on a free thread, and frees it on any thread.
  void TakeTurns(int steps, int64_t length, double jitter, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> factor(1 - jitter, 1 + jitter);
    int64_t now = 5 * kMs;
    for (int step = 0; step < steps; ++step) {
      begins_.push_back(now);
      const size_t thread = 1 + random() % 2;
      for (int i = 0; i < 5; ++i) Call(thread, kAllocate, now + i * 3 * kUs, kUs, 7, 1 << 20);
      const size_t other = 1 + random() % 2;
      const int64_t frees = now + length / 3 + static_cast<int64_t>(random() % 100) * length / 1000;
      for (int i = 0; i < 5; ++i) Call(other, kFree, frees + i * 2 * kUs, kUs, 8, (1 << 20) + 8 * (i % 2));
      now += static_cast<int64_t>(static_cast<double>(length) * factor(random));
    }
    begins_.push_back(now);
  }

  Timeline timeline_;
  std::vector<int64_t> begins_;
};

TEST_F(StepActivityTest, EmptyTimeline_HasNoSteps) {
  EXPECT_TRUE(DetectStepsInBursts(timeline_, 0).steps.empty());
  EXPECT_TRUE(DetectStepsOfThreads(timeline_, 0).steps.empty());
  EXPECT_TRUE(DetectStepsInBursts(timeline_, 9).steps.empty());
}

TEST_F(StepActivityTest, WorkOfAStepOnAnyThread_StepsAreFound) {
  timeline_.processes[0].library = NumericLibrary::kFramework;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (Thread& thread : timeline_.threads) thread.events.clear();
    begins_.clear();
    TakeTurns(100, 13 * kMs, 0.2, seed);
    WaitAtRandom(begins_.back(), 2 * kMs, seed);
    Sort();
    const InferredSteps found = InferSteps(timeline_, 0);
    EXPECT_EQ(found.source, "calls of all threads");
    EXPECT_LE(found.confidence, kMostFromBursts);
    EXPECT_GE(found.confidence, 0.5);
    ASSERT_GE(found.steps.size(), 97u);
    ASSERT_LE(found.steps.size(), 101u);
    // Each found step lasts from one kind of call to its next, which may be anywhere in the real step.
    std::vector<int64_t> lengths;
    for (const Step& step : found.steps) lengths.push_back(step.end_ps - step.start_ps);
    std::sort(lengths.begin(), lengths.end());
    EXPECT_NEAR(static_cast<double>(lengths[lengths.size() / 2]), 13.0 * kMs, 1.5 * kMs);
  }
}

TEST_F(StepActivityTest, CallsAtRandom_HaveNoSteps) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (Thread& thread : timeline_.threads) thread.events.clear();
    std::mt19937_64 random(seed);
    for (size_t thread = 1; thread < 4; ++thread) {
      const double mean = static_cast<double>(kMs) * static_cast<double>(1 + random() % 40);
      std::exponential_distribution<double> gap(1 / mean);
      for (int64_t at = 0; at < 4000 * kMs; at += static_cast<int64_t>(gap(random)) + kUs) {
        Call(thread, random() % 2 == 0 ? kWait : kAllocate, at, 10 * kUs, static_cast<StringId>(1 + random() % 9),
             1 << (16 + random() % 4));
      }
    }
    Sort();
    const InferredSteps found = InferSteps(timeline_, 0);
    EXPECT_TRUE(found.steps.empty()) << seed << " " << found.source << " " << found.confidence;
  }
}

TEST_F(StepActivityTest, FewCallsAtRandom_HaveNoSteps) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (Thread& thread : timeline_.threads) thread.events.clear();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 150; ++i) {
      Call(1 + random() % 3, kRead, static_cast<int64_t>(random() % 3000) * kMs, 10 * kUs,
           static_cast<StringId>(1 + random() % 12), 1000);
    }
    Sort();
    const InferredSteps found = InferSteps(timeline_, 0);
    EXPECT_TRUE(found.steps.empty()) << seed << " " << found.source << " " << found.confidence;
  }
}

TEST_F(StepActivityTest, Monitor_IsNoLoop) {
  for (int i = 0; i < 100; ++i) {
    const int64_t at = i * 50 * kMs;
    Call(1, kSleep, at, 49 * kMs, 1);
    Call(1, kRead, at + 49 * kMs + 100 * kUs, 30 * kUs, 2, 500);
    Call(1, kRead, at + 49 * kMs + 200 * kUs, 30 * kUs, 3, 500);
  }
  WaitAtRandom(5000 * kMs, 3 * kMs, 4);
  Sort();
  EXPECT_TRUE(InferSteps(timeline_, 0).steps.empty());
}

TEST_F(StepActivityTest, WaitThatTimedOut_IsAClock) {
  for (int i = 0; i < 100; ++i) {
    Call(1, kWait, i * 50 * kMs, 49 * kMs, 1);
    timeline_.threads[1].events.back().flags = Event::kFailed;
    timeline_.threads[1].events.back().error = ETIMEDOUT;
    Call(1, kRead, i * 50 * kMs + 49 * kMs + 100 * kUs, 30 * kUs, 2, 500);
  }
  WaitAtRandom(5000 * kMs, 3 * kMs, 4);
  Sort();
  EXPECT_TRUE(InferSteps(timeline_, 0).steps.empty());
}

TEST_F(StepActivityTest, OneKindOfCall_LowConfidence) {
  TakeTurns(100, 13 * kMs, 0.1, 1);
  for (Thread& thread : timeline_.threads) {
    std::erase_if(thread.events, [](const Event& event) { return event.type == kFree; });
  }
  Sort();
  const StepDetection alone = DetectStepsInBursts(timeline_, 0);
  EXPECT_FALSE(alone.steps.empty());
  EXPECT_LT(alone.confidence, 0.5);
}

TEST_F(StepActivityTest, PeriodWithinAPeriod_AlternativeIsReported) {
  TakeTurns(60, 40 * kMs, 0.05, 1);
  // Four parts of each step, of two kinds.
  for (size_t i = 0; i + 1 < begins_.size(); ++i) {
    for (int part = 0; part < 4; ++part) {
      const int64_t at = begins_[i] + part * (begins_[i + 1] - begins_[i]) / 4;
      Call(3, kRead, at + kMs, 50 * kUs, 20, 100);
      Call(3, kWait, at + 4 * kMs, 50 * kUs, 21);
    }
  }
  Sort();
  const StepDetection found = DetectStepsInBursts(timeline_, 0);
  ASSERT_FALSE(found.steps.empty());
  EXPECT_LT(found.confidence, 0.5);
  const bool part = found.period_ps < 20 * kMs;
  EXPECT_NEAR(found.alternative, part ? 4 : 0.25, part ? 0.4 : 0.03);
}

TEST_F(StepActivityTest, Pause_IsIrregular) {
  TakeTurns(50, 10 * kMs, 0.05, 1);
  const int64_t pause = 400 * kMs;
  for (Thread& thread : timeline_.threads) {
    for (Event& event : thread.events) {
      if (event.start_ps >= begins_[30]) event.start_ps += pause;
    }
  }
  Sort();
  const StepDetection found = DetectStepsInBursts(timeline_, 0);
  ASSERT_FALSE(found.steps.empty());
  size_t irregular = 0;
  for (const DetectedStep& step : found.steps) {
    irregular += step.kind != DetectedStep::Kind::kRegular;
    if (step.end_ps - step.start_ps >= pause) {
      EXPECT_EQ(step.kind, DetectedStep::Kind::kIrregular);
    }
  }
  EXPECT_EQ(irregular, 1u);
}

TEST_F(StepActivityTest, CallsAtChangingPlaces_RhythmOfThreadsIsFound) {
  std::mt19937_64 random(2);
  for (int step = 0; step < 120; ++step) {
    for (size_t thread = 1; thread < 4; ++thread) {
      for (int i = 0; i < 20; ++i) {
        Call(thread, kWait, step * 40 * kMs + static_cast<int64_t>(random() % 15000) * kUs, 5 * kUs,
             static_cast<StringId>(1 + random() % 100'000));
      }
    }
  }
  Sort();
  EXPECT_TRUE(DetectStepsInBursts(timeline_, 0).steps.empty());
  const StepDetection found = DetectStepsOfThreads(timeline_, 0);
  ASSERT_NEAR(static_cast<double>(found.steps.size()), 119, 3);
  EXPECT_EQ(found.source, "rhythm of all threads' calls");
  EXPECT_LE(found.confidence, kMostFromActivity);
  // If a framework is loaded, nothing shows whose rhythm this is: no steps.
  timeline_.processes[0].library = NumericLibrary::kFramework;
  EXPECT_TRUE(InferSteps(timeline_, 0).steps.empty());
}

TEST_F(StepActivityTest, CallsAllAtOnce_HaveNoSteps) {
  for (int i = 0; i < 1000; ++i) Call(1 + static_cast<size_t>(i) % 3, kWait, 7 * kMs, 0, 1);
  Sort();
  EXPECT_TRUE(InferSteps(timeline_, 0).steps.empty());
  Call(1, kWait, std::numeric_limits<int64_t>::max() / 4, 0, 1);
  Sort();
  EXPECT_TRUE(InferSteps(timeline_, 0).steps.empty());
}

}  // namespace
}  // namespace tbprof
