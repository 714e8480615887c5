// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/waits_at_line.h"

#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"

namespace tbprof {
namespace {

// Turns of 50 ms, of which each waits `waits` times at train.py:33, a millisecond apart, and once at train.py:40.
InferredSteps Found(int turns, int waits, const char* marker = "train.py:33", int64_t second_ms = 1) {
  VerdictMaker maker;
  const uint32_t line = maker.Stack(maker.in_main, kOwn, "load", 33),
                 other = maker.Stack(maker.in_main, kOwn, "log", 40);
  for (int turn = 0; turn < turns; ++turn) {
    const int64_t at = turn * 50 * kMs;
    for (int i = 0; i < waits; ++i) maker.Wait(maker.main, 0, at + i * second_ms * kMs, kMs / 2, line);
    maker.Wait(maker.main, 0, at + 45 * kMs, kMs / 2, other);
  }
  return StepsBetweenWaits(maker.timeline, 0, StepNames(marker));
}

TEST(WaitsAtLine, OneWaitInEachTurn_IsAStepEach) {
  const InferredSteps found = Found(40, 1);
  ASSERT_EQ(found.steps.size(), 39u);
  EXPECT_EQ(found.steps[3].start_ps, 3 * 50 * kMs);
  EXPECT_EQ(found.steps[3].end_ps, 4 * 50 * kMs);
  EXPECT_EQ(found.source, "Python line train.py:33 load");
}

TEST(WaitsAtLine, SeveralWaitsOfOneCall_AreOneStep) { EXPECT_EQ(Found(40, 3).steps.size(), 39u); }

TEST(WaitsAtLine, WaitsHalfAStepApart_AreNotKnown) { EXPECT_TRUE(Found(40, 2, "train.py:33", 20).steps.empty()); }

TEST(WaitsAtLine, ManyWaitsInEachTurn_AreNotKnown) { EXPECT_TRUE(Found(40, 6, "train.py:33", 2).steps.empty()); }

TEST(WaitsAtLine, FewWaitsOrAnotherLine_AreNone) {
  EXPECT_TRUE(Found(8, 1).steps.empty());
  EXPECT_TRUE(Found(40, 1, "train.py:34").steps.empty());
}

}  // namespace
}  // namespace tbprof
