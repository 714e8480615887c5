// SPDX-License-Identifier: Apache-2.0
//
// What takes the additional time of steps that change: which line, and which part of the step.
#include "writer/verdict/step_change.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"
#include "writer/outputs/step_change_text.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

constexpr int kCount = 120, kFrom = 60;

class StepChangeTest : public testing::Test {
 protected:
  StepChangeTest() {
    maker_.timeline.steps.clear();
    maker_.timeline.step_confidence = 1;
    outer_ = maker_.Stack(0, kOwn, "main", 4);
    work_ = maker_.Stack(outer_, kOwn, "work", 20);
    augment_ = maker_.Stack(outer_, kOwn, "augment", 8);
  }

  // `visit(i, at)` fills a step and returns its length.
  void Steps(const std::function<int64_t(int, int64_t)>& visit) {
    int64_t at = 0;
    for (int i = 0; i < kCount; ++i) {
      Step step;
      step.start_ps = at;
      step.end_ps = at + visit(i, at);
      step.number = i;
      step.thread = maker_.main;
      at = step.end_ps;
      maker_.timeline.steps.push_back(step);
    }
    maker_.timeline.duration_ps = at;
  }
  int64_t Work(int64_t at, uint32_t stack = 0) {
    maker_.Run(maker_.main, at, 20 * kMs, stack == 0 ? work_ : stack, maker_.library);
    return 20 * kMs;
  }
  // Steps of 20 ms; of the later ones, `visit(at)` fills 40 ms more.
  void Slower(const std::function<void(int64_t)>& visit) {
    Steps([&](int i, int64_t at) {
      const int64_t worked = Work(at);
      if (i < kFrom) return worked;
      visit(at + worked);
      return worked + 40 * kMs;
    });
  }
  StepChange Find() {
    maker_.timeline.step_change = FindStepChange(maker_.timeline);
    return maker_.timeline.step_change;
  }
  std::string Text(size_t columns = 200) { return StepChangeText(maker_.timeline, columns); }

  VerdictMaker maker_;
  uint32_t outer_ = 0, work_ = 0, augment_ = 0;
};

TEST_F(StepChangeTest, LineThatRuns_IsNamed) {
  Slower([&](int64_t at) { maker_.Run(maker_.main, at, 40 * kMs, augment_, maker_.interpreter); });
  const StepChange change = Find();
  ASSERT_EQ(change.kind, ChangeKind::kJump);
  EXPECT_EQ(change.step, kFrom);
  EXPECT_EQ(change.at_ps, kFrom * 20 * kMs);
  EXPECT_EQ(change.before_ps, 20 * kMs);
  EXPECT_EQ(change.after_ps, 60 * kMs);
  EXPECT_EQ(change.part, StepPart::kPython);
  EXPECT_EQ(change.line.line, 8);
  EXPECT_NEAR(static_cast<double>(change.line_ps), 40 * kMs, kMs);
  EXPECT_EQ(Text(),
            "slower: from 1.20 s (step 60) on a step takes 60.0 ms, before 20.0 ms: +40.0 ms at train.py:8 augment "
            "(Python)");
  EXPECT_EQ(Text(92), "slower: from 1.20 s on a step takes 60.0 ms, before 20.0 ms: +40.0 ms at train.py:8 augment");
}

// The same code takes longer while others share the caches and the cores.
TEST_F(StepChangeTest, CodeThatLacksCpus_IsSaidTo) {
  for (const int64_t starved : {0, 6}) {
    SCOPED_TRACE(starved);
    maker_ = VerdictMaker();
    maker_.timeline.steps.clear();
    maker_.timeline.step_confidence = 1;
    work_ = maker_.Stack(maker_.Stack(0, kOwn, "main", 4), kOwn, "work", 20);
    int64_t delay = 0;
    Steps([&](int i, int64_t at) {
      const int64_t length = (i < kFrom ? 20 : 40) * kMs, waits = i < kFrom ? 0 : starved * kMs;
      maker_.Run(maker_.main, at, length - waits, work_, maker_.library);
      ThreadUsage& usage = maker_.timeline.usage[maker_.main];
      UsagePoint point = usage.points.back();
      point.at_ps = at + length;
      point.run_delay_ps = delay += waits;
      usage.points.push_back(point);
      return length;
    });
    EXPECT_EQ(Find().part, StepPart::kOperations);
    EXPECT_EQ(Find().lacks_cpus, starved > 0);
    EXPECT_THAT(Text(), starved > 0 ? testing::EndsWith(", while it waits more for a CPU")
                                    : testing::EndsWith("in native code"));
  }
}

TEST_F(StepChangeTest, LineThatSleeps_IsNamedWithItsWait) {
  Slower([&](int64_t at) { maker_.Wait(maker_.main, 1, at, 40 * kMs, augment_); });
  const StepChange change = Find();
  EXPECT_EQ(change.part, StepPart::kSleep);
  EXPECT_EQ(change.line_part, StepPart::kSleep);
  EXPECT_THAT(Text(), testing::EndsWith("+40.0 ms at train.py:8 augment (sleep)"));
}

TEST_F(StepChangeTest, LinesOfOneFunction_AreNamedByTheirCaller) {
  uint32_t lines[4];
  const uint32_t call = maker_.Stack(0, kOwn, "main", 5);
  for (int i = 0; i < 4; ++i) lines[i] = maker_.Stack(call, kOwn, "mix", 30 + i);
  Slower([&](int64_t at) {
    for (int i = 0; i < 4; ++i) maker_.Run(maker_.main, at + i * 10 * kMs, 10 * kMs, lines[i], maker_.interpreter);
  });
  Find();
  EXPECT_THAT(Text(), testing::EndsWith("+40.0 ms at train.py:5 main (Python)"));
}

TEST_F(StepChangeTest, WaitsForACpu_AreNamedWithoutALine) {
  Slower([&](int64_t at) {
    maker_.Run(maker_.main, at, 40 * kMs, work_, 0);
    ThreadUsage& usage = maker_.timeline.usage[maker_.main];
    UsagePoint point = usage.points.back();
    point.at_ps = at + 40 * kMs;
    point.run_delay_ps += 40 * kMs;
    usage.points.push_back(point);
  });
  const StepChange change = Find();
  EXPECT_EQ(change.part, StepPart::kStarvation);
  EXPECT_EQ(change.line.file, 0u);
  EXPECT_THAT(Text(), testing::EndsWith("ms in waits for a CPU"));
}

TEST_F(StepChangeTest, WaitsForTheGil_NameTheLineThatHoldsIt) {
  const uint32_t other = maker_.Thread("stats");
  const uint32_t burn = maker_.Stack(0, "/home/me/stats.py", "run", 28);
  Slower([&](int64_t at) {
    for (int i = 0; i < 8; ++i) {
      maker_.Wait(maker_.main, 0, at + i * 5 * kMs, 5 * kMs, work_, 0, "take_gil (ceval_gil.c:1)");
      maker_.timeline.python.holders.push_back({at + i * 5 * kMs + kMs, 5 * kMs, other, burn});
    }
  });
  EXPECT_EQ(Find().part, StepPart::kGil);
  EXPECT_THAT(Text(), testing::EndsWith("+40.0 ms in waits for the GIL, held at stats.py:28 run"));
  EXPECT_EQ(Text(92), "slower: 20.0 ms a step, from 1.20 s on 60.0 ms: +40.0 ms, GIL held at stats.py:28 run");
}

TEST_F(StepChangeTest, OtherLoop_IsNoChange) {
  const uint32_t second = maker_.Stack(0, kOwn, "main", 44);
  const uint32_t finetune = maker_.Stack(second, kOwn, "work", 20);
  Steps([&](int i, int64_t at) {
    if (i < kFrom) return Work(at);
    maker_.Run(maker_.main, at, 60 * kMs, finetune, maker_.library);
    return 60 * kMs;
  });
  EXPECT_EQ(Find().kind, ChangeKind::kNone);
  EXPECT_EQ(Text(), "");
}

// Each tenth step evaluates: that is no change, but half of the time.
TEST_F(StepChangeTest, LongStepsAmongShortOnes_AreCounted) {
  Steps([&](int i, int64_t at) {
    const int64_t worked = Work(at);
    if (i % 10 != 9) return worked;
    maker_.Run(maker_.main, at + worked, 200 * kMs, augment_, maker_.library);
    return worked + 200 * kMs;
  });
  EXPECT_EQ(Find().kind, ChangeKind::kNone);
  const LongSteps found = FindLongSteps(maker_.timeline, PythonTags(maker_.timeline));
  EXPECT_EQ(found.count, 12u);
  EXPECT_EQ(found.steps, 117u);  // without the first three
  EXPECT_NEAR(found.share, 0.56, 0.02);
  EXPECT_EQ(found.change.before_ps, 20 * kMs);
  EXPECT_EQ(found.change.after_ps, 220 * kMs);
  EXPECT_EQ(found.change.line.line, 8);
  const Verdict verdict = MakeVerdict(maker_.timeline);
  EXPECT_EQ(verdict.remedy, Advice::kLongSteps);
  ASSERT_FALSE(verdict.facts.empty());
  EXPECT_EQ(verdict.facts.front(),
            "12 of 117 steps take 220 ms on average and 56 % of the time: +200 ms at train.py:8 augment");
}

TEST_F(StepChangeTest, LongStepsOfAWarmUp_AreNot) {
  Steps([&](int i, int64_t at) {
    const int64_t worked = Work(at);
    if (i >= 10) return worked;
    maker_.Run(maker_.main, at + worked, 200 * kMs, augment_, maker_.library);
    return worked + 200 * kMs;
  });
  EXPECT_EQ(FindLongSteps(maker_.timeline, PythonTags(maker_.timeline)).count, 0u);
}

// Also where the cause has a remedy of its own.
TEST_F(StepChangeTest, PythonThatGrows_IsSaidToGrow) {
  Steps([&](int i, int64_t at) {
    const int64_t worked = Work(at), length = (20 + i) * kMs;
    maker_.Run(maker_.main, at + worked, length, augment_, maker_.interpreter);
    return worked + length;
  });
  ASSERT_EQ(Find().kind, ChangeKind::kDrift);
  const Verdict verdict = MakeVerdict(maker_.timeline);
  EXPECT_EQ(verdict.cause, Cause::kPython);
  EXPECT_EQ(verdict.remedy, Advice::kGrows);
}

TEST_F(StepChangeTest, FewLongSteps_AreNot) {
  Steps([&](int i, int64_t at) {
    const int64_t worked = Work(at);
    if (i % 50 != 49) return worked;
    maker_.Run(maker_.main, at + worked, 200 * kMs, augment_, maker_.library);
    return worked + 200 * kMs;
  });
  EXPECT_EQ(FindLongSteps(maker_.timeline, PythonTags(maker_.timeline)).count, 0u);
}

// Where nothing else is a problem, the next step is to look at what made the steps longer.
TEST_F(StepChangeTest, StepsThatGetSlower_DecideTheAdvice) {
  Slower([&](int64_t at) { maker_.Run(maker_.main, at, 40 * kMs, augment_, maker_.library); });
  Find();
  const Verdict verdict = MakeVerdict(maker_.timeline);
  EXPECT_EQ(verdict.cause, Cause::kOperations);
  EXPECT_EQ(verdict.advice, Advice::kOfCause) << "the cause is called as before";
  EXPECT_EQ(verdict.remedy, Advice::kGetsSlower);
}

TEST_F(StepChangeTest, MemoryThatGrows_DecidesTheAdvice) {
  Steps([&](int, int64_t at) { return Work(at); });
  HeldMemory& memory = maker_.timeline.processes[0].memory;
  memory.grows = true;
  memory.peak_bytes = 300 << 20;
  for (const int64_t mib : {int64_t{16}, int64_t{200}}) {
    memory.growth.emplace().bytes = mib << 20;
    EXPECT_EQ(MakeVerdict(maker_.timeline).remedy.has_value(), mib == 200) << mib;
  }
  EXPECT_EQ(MakeVerdict(maker_.timeline).remedy, Advice::kMemoryGrows);
}

TEST_F(StepChangeTest, UnsureSteps_HaveNone) {
  Slower([&](int64_t at) { maker_.Run(maker_.main, at, 40 * kMs, augment_, maker_.interpreter); });
  maker_.timeline.step_source = StepSource::kInferred;
  maker_.timeline.step_confidence = 0.65;
  EXPECT_EQ(Find().kind, ChangeKind::kNone);
}

// Operations of PyTorch that are left out from some time on make two steps look like one.
TEST_F(StepChangeTest, SamplingThatChanges_IsNoChange) {
  Slower([&](int64_t at) { maker_.Run(maker_.main, at, 40 * kMs, augment_, maker_.interpreter); });
  Timeline& timeline = maker_.timeline;
  timeline.step_source = StepSource::kFramework;
  timeline.processes[0].torch = {.recorded = 100, .skipped = 50, .weights = {{0, 1}, {kFrom * 20 * kMs, 3}}};
  EXPECT_EQ(Find().kind, ChangeKind::kNone);
  timeline.processes[0].torch.weights = {{0, 2}};
  EXPECT_EQ(Find().kind, ChangeKind::kJump);
}

TEST_F(StepChangeTest, SeveralRanks_ShowTheOneWhoseOwnTimeChanged) {
  Slower([&](int64_t at) { maker_.Run(maker_.main, at, 40 * kMs, augment_, maker_.interpreter); });
  Find();
  Timeline& timeline = maker_.timeline;
  timeline.rank = 0;
  timeline.by_rank.resize(2);
  timeline.by_rank[0].rank = 0;
  timeline.by_rank[0].step_change = "slower: of others";
  timeline.by_rank[0].change_is_of_others = true;
  timeline.by_rank[1].rank = 1;
  EXPECT_THAT(StepChangeOfRanks(timeline, 92), testing::StartsWith("rank 0: slower: 20.0 ms a step, from 1.20 s on"));
  timeline.by_rank[1].step_change = "slower: of its own";
  EXPECT_EQ(StepChangeOfRanks(timeline, 92), "rank 1: slower: of its own");
}

TEST_F(StepChangeTest, Json_IsNullWithoutAChange) {
  Steps([&](int, int64_t at) { return Work(at); });
  Find();
  EXPECT_TRUE(StepChangeJson(maker_.timeline).is_null());
}

}  // namespace
}  // namespace tbprof
