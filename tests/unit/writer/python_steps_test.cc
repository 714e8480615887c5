// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/python_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "writer/base/median.h"
#include "writer/convert/step_choice.h"
#include "writer/steps/inferred_steps.h"
#include "writer/steps/python_paths.h"

namespace tbprof {
namespace {

constexpr int64_t kUs = 1'000'000, kMs = 1000 * kUs;

// A Python program that spends its time at lines, while a sampler samples it.
class PythonStepsTest : public testing::Test {
 protected:
  enum Type : uint16_t { kAllocate, kWait, kSleep };
  PythonStepsTest() {
    Process& process = timeline_.processes.emplace_back();
    process.is_command = true;
    process.library = NumericLibrary::kFramework;
    timeline_.types = {{"malloc", EventFamily::kMemory, ObjectKind::kAddress, ValueKind::kBytes},
                       {"futex", EventFamily::kLock, ObjectKind::kAddress, ValueKind::kNone},
                       {"nanosleep", EventFamily::kSleep, ObjectKind::kNone, ValueKind::kNone}};
    numpy_ = timeline_.strings.Intern("default_malloc (_multiarray_umath.so+0x1)");
    timeline_.python.stacks.emplace_back();
    module_ = Function("<module>", "/home/me/train.py");
    loop_ = Function("train", "/home/me/train.py");
    library_ = Function("call", "/usr/lib/python3.11/site-packages/jax/api.py");
    AddThread();
    base_ = Frame(0, module_, 90);
  }

  uint32_t Function(const std::string& name, const std::string& file) {
    PythonFunction function;
    function.name = timeline_.strings.Intern(name);
    function.file = timeline_.strings.Intern(file);
    timeline_.python.functions.push_back(function);
    return static_cast<uint32_t>(timeline_.python.functions.size() - 1);
  }
  uint32_t Frame(uint32_t parent, uint32_t function, int line) {
    std::vector<PythonStack>& stacks = timeline_.python.stacks;
    for (uint32_t i = 1; i < stacks.size(); ++i) {
      if (stacks[i].parent == parent && stacks[i].function == function && stacks[i].line == line) return i;
    }
    stacks.push_back({parent, function, line});
    return static_cast<uint32_t>(stacks.size() - 1);
  }
  uint32_t Line(int line) { return Frame(base_, loop_, line); }
  void AddThread() {
    Thread& thread = timeline_.threads.emplace_back();
    thread.line_id = timeline_.threads.size();
    thread.is_main = timeline_.threads.size() == 1;
    spent_.emplace_back();
  }

  // The thread is at the stack for `length`; only the sampler sees that.
  void Spend(int64_t length, uint32_t stack, size_t thread = 0) {
    spent_[thread].push_back({now_, now_ + length, stack});
    now_ += length;
  }
  // A call that a hook records.
  void Call(Type type, int64_t length, uint32_t stack, size_t thread = 0, int error = 0) {
    Event event{.start_ps = now_, .duration_ps = length, .call_site = numpy_, .type = type, .python = stack};
    if (type == kAllocate) event.value = 1 << 20;
    if (error != 0) event.flags = Event::kFailed;
    event.error = error;
    timeline_.threads[thread].events.push_back(event);
    Spend(length, stack, thread);
  }
  int64_t Jitter(int64_t length, double share = 0.05) {
    const double by = std::uniform_real_distribution<double>(-share, share)(random_);
    return static_cast<int64_t>(static_cast<double>(length) * (1 + by));
  }

  // Batch at line 11, dispatch at 12, wait for it at 13.
  void Turn(int64_t length, size_t thread = 0) {
    begins_.push_back(now_);
    Call(kAllocate, 5 * kUs, Line(11), thread);
    Spend(Jitter(length * 3 / 10), Line(11), thread);
    Spend(Jitter(length / 10), Line(12), thread);
    Call(kWait, Jitter(length * 6 / 10), Line(13), thread);
  }

  // Takes a sample each period; `lost`: the share of samples that are lost at random.
  void Sample(int64_t period, double lost = 0, int64_t slower_from = INT64_MAX) {
    timeline_.duration_ps = std::max(timeline_.duration_ps, now_);
    for (uint32_t i = 0; i < spent_.size(); ++i) {
      PythonThread& out = timeline_.python.threads.emplace_back();
      out.thread = i;
      size_t at = 0;
      int64_t step = period;
      for (int64_t time = period / 3; time < now_; time += step) {
        if (time >= slower_from) step = 4 * period;
        while (at < spent_[i].size() && spent_[i][at].end <= time) ++at;
        if (at == spent_[i].size()) break;
        if (spent_[i][at].start > time || std::uniform_real_distribution<double>()(random_) < lost) continue;
        Add(time, step, spent_[i][at].stack, &out.runs);
      }
    }
  }
  static void Add(int64_t time, int64_t period, uint32_t stack, std::vector<PythonRun>* runs) {
    if (!runs->empty() && runs->back().stack == stack && time - runs->back().last_ps <= period) {
      runs->back().last_ps = time;
      runs->back().to_ps = time + period / 2;
      ++runs->back().samples;
      return;
    }
    const int64_t from = runs->empty() ? time - period / 2 : std::max(runs->back().to_ps, time - period / 2);
    runs->push_back({time, time, from, time + period / 2, period, stack, 1, 1});
  }

  InferredSteps Infer() {
    timeline_.duration_ps = std::max(timeline_.duration_ps, now_);
    return InferSteps(timeline_, 0);
  }
  static double MedianMs(const InferredSteps& found) {
    std::vector<int64_t> lengths;
    for (const Step& step : found.steps) {
      if (step.is_regular) lengths.push_back(step.end_ps - step.start_ps);
    }
    return static_cast<double>(Median(std::move(lengths))) / static_cast<double>(kMs);
  }
  void ExpectBegins(const InferredSteps& found, int64_t within, double share = 0.95) {
    size_t right = 0;
    for (const int64_t begin : begins_) {
      right += std::ranges::any_of(found.steps, [&](const Step& s) { return std::abs(s.start_ps - begin) <= within; });
    }
    EXPECT_GE(static_cast<double>(right), share * static_cast<double>(begins_.size()));
  }

  struct Spent {
    int64_t start, end;
    uint32_t stack;
  };
  Timeline timeline_;
  std::vector<std::vector<Spent>> spent_;
  std::vector<int64_t> begins_;
  std::mt19937 random_{7};
  StringId numpy_ = 0;
  uint32_t module_ = 0, loop_ = 0, library_ = 0, base_ = 0;
  int64_t now_ = 0;
};

TEST_F(PythonStepsTest, NothingOfPython_NoSteps) {
  EXPECT_TRUE(DetectStepsInPython(Timeline(), 0).empty());
  EXPECT_TRUE(DetectStepsInPython(timeline_, 0).empty());
}

TEST_F(PythonStepsTest, LibrariesFrames_ArePartOfTheLine) {
  const uint32_t within = Frame(Line(13), library_, 400);
  const PythonPaths paths(timeline_);
  EXPECT_EQ(paths.Of(within), paths.Of(Line(13)));
  EXPECT_NE(paths.Of(within), paths.Of(base_));
  EXPECT_EQ(paths[paths.Of(within)].depth, 2u);
  EXPECT_EQ(paths.At(paths.Of(within), 1), paths.Of(base_));
  EXPECT_EQ(paths.Of(0), 0u);
}

TEST_F(PythonStepsTest, LinesThatTakeTurns_AreSureSteps) {
  Spend(3000 * kMs, Frame(Line(11), library_, 7));  // the first call compiles
  for (int i = 0; i < 100; ++i) Turn(30 * kMs);
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 100, 3);
  EXPECT_NEAR(MedianMs(found), 30, 1);
  EXPECT_GT(found.confidence, kSureConfidence);
  EXPECT_EQ(found.source, "Python line train.py:13 train");
  ExpectBegins(found, kMs);
}

TEST_F(PythonStepsTest, WithoutSamples_StepsByCallsAlone) {
  for (int i = 0; i < 200; ++i) Turn(5 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 200, 3);
  EXPECT_LE(found.confidence, 0.7) << "nothing tells that a line comes once";
  ExpectBegins(found, 500 * kUs);
}

// A library takes several locks to wait for one result.
TEST_F(PythonStepsTest, OneLineWithSeveralWaits_IsOneStep) {
  for (int i = 0; i < 200; ++i) {
    begins_.push_back(now_);
    Spend(Jitter(700 * kUs), Line(12));
    for (int wait = 0; wait <= i % 3; ++wait) {
      Call(kWait, Jitter((i % 3 == 0 ? 6 : 2) * kMs), Line(13));
      Spend(Jitter(12 * kUs, 0.6), Line(13));
    }
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 200, 4);
  EXPECT_LE(found.confidence, 0.7);
  EXPECT_GE(found.confidence, kLeastShown);
  ExpectBegins(found, 100 * kUs);
}

// Each turn compiles: its waits are those of the compiler, one for each of its parts.
TEST_F(PythonStepsTest, WaitsOfACompiler_AreNoSteps) {
  const uint32_t compiler = Function("compile", "/usr/lib/python3.11/site-packages/jax/_src/compiler.py");
  for (const bool has_calls : {false, true}) {
    for (int i = 0; i < 120; ++i) {
      if (has_calls) {
        Turn(60 * kMs);
      } else {
        Spend(Jitter(10 * kMs), Line(13));
      }
      Call(kWait, Jitter(40 * kMs), Frame(Line(13), compiler, 400));
      Spend(Jitter(kMs), Frame(Line(13), compiler, 401));
      if (i % 5 < 3) Call(kWait, Jitter(40 * kMs), Frame(Line(13), compiler, 402));
    }
    Sample(10 * kMs);
    const InferredSteps found = Infer();
    if (has_calls) {
      EXPECT_NEAR(static_cast<double>(found.steps.size()), 120, 4) << found.confidence;
    } else {
      EXPECT_TRUE(found.steps.empty()) << found.confidence;
    }
    timeline_.threads[0].events.clear();
    timeline_.python.threads.clear();
    spent_[0].clear();
    begins_.clear();
    now_ = 0;
  }
}

TEST_F(PythonStepsTest, LongStepsWithoutCalls_BySamples) {
  for (int i = 0; i < 60; ++i) {
    begins_.push_back(now_);
    Spend(Jitter(60 * kMs), Line(11));
    Spend(Jitter(40 * kMs), Line(12));
    Spend(Jitter(150 * kMs), Line(13));
  }
  for (const bool torn : {false, true}) {
    timeline_.python.threads.clear();
    Sample(10 * kMs, torn ? 0.2 : 0);
    const std::vector<PythonSteps> all = DetectStepsInPython(timeline_, 0);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_FALSE(all[0].exact);
    EXPECT_LE(all[0].found.confidence, kMostFromSamples);
    EXPECT_NEAR(static_cast<double>(all[0].found.steps.size()), 60, 3) << torn;
    EXPECT_NEAR(static_cast<double>(all[0].found.period_ps) / static_cast<double>(kMs), 250, 10) << torn;
  }
}

// tbprof's CPU limit lowers the sampling rate in the middle of a run.
TEST_F(PythonStepsTest, LoweredRate_SameSteps) {
  for (int i = 0; i < 60; ++i) {
    Spend(Jitter(300 * kMs), Line(11));
    Spend(Jitter(400 * kMs), Line(13));
  }
  Sample(10 * kMs, 0, now_ / 2);
  const std::vector<PythonSteps> all = DetectStepsInPython(timeline_, 0);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NEAR(static_cast<double>(all[0].found.steps.size()), 60, 3);
  EXPECT_NEAR(static_cast<double>(all[0].found.period_ps) / static_cast<double>(kMs), 700, 30);
}

// Aliasing: samples every 10 ms of steps of 10.1 ms look like one step per second.
TEST_F(PythonStepsTest, StepsAboutAsLongAsTheInterval_AreNeverSure) {
  for (const int64_t length : {5'050, 9'900, 10'000, 10'100, 20'100, 30'200}) {
    SCOPED_TRACE(length);
    now_ = 0;
    spent_ = {{}};
    timeline_.python.threads.clear();
    for (int i = 0; i < 4000; ++i) {
      Spend(length * kUs * 4 / 10, Line(11));
      Spend(length * kUs * 6 / 10, Line(13));
    }
    Sample(10 * kMs);
    EXPECT_LE(Infer().confidence, kMostFromSamples);
  }
}

// Calls have exact times, so samples that always hit the same place of a step do no harm.
TEST_F(PythonStepsTest, CallsOfStepsAsLongAsTheInterval_RightSteps) {
  for (int i = 0; i < 300; ++i) {
    begins_.push_back(now_);
    Call(kAllocate, 10 * kUs, Line(11));
    Spend(4 * kMs - 10 * kUs, Line(11));
    Call(kWait, 6 * kMs, Line(13));
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 300, 3);
  EXPECT_NEAR(MedianMs(found), 10, 0.1);
  ExpectBegins(found, 100 * kUs);
}

TEST_F(PythonStepsTest, EpochsWithEvaluation_StepsAreBatches) {
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (int i = 0; i < 40; ++i) Turn(20 * kMs);
    for (int i = 0; i < 6; ++i) Call(kWait, Jitter(15 * kMs), Line(17));
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 320, 16);
  EXPECT_NEAR(MedianMs(found), 20, 1);
  ExpectBegins(found, kMs);
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_EQ(found.loops[0].steps_each, 40);
  EXPECT_EQ(found.loops[0].count, 8u);
}

// Each step has a loop over parts, such as clusters or layers.
TEST_F(PythonStepsTest, InnerLoops_AreNotTheStep) {
  for (int i = 0; i < 60; ++i) {
    begins_.push_back(now_);
    Call(kAllocate, 10 * kUs, Line(11));
    Spend(Jitter(30 * kMs), Line(11));
    for (int part = 0; part < 12; ++part) {
      Call(kAllocate, 10 * kUs, Line(13));
      Spend(Jitter(kMs), Line(13));
      Call(kAllocate, 10 * kUs, Line(14));
      Spend(Jitter(kMs), Line(14));
    }
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 60, 3);
  EXPECT_NEAR(MedianMs(found), 54, 3);
}

// Of the batches of an epoch, some wait, at any of them: only the epoch has a line that is visited regularly.
TEST_F(PythonStepsTest, BatchesThatWaitNowAndThen_EpochsAreNoSureSteps) {
  std::bernoulli_distribution waits(0.3);
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (int batch = 0; batch < 50; ++batch) {
      Spend(Jitter(10 * kMs), Frame(Line(12), library_, 7));
      if (waits(random_)) Call(kWait, Jitter(8 * kMs, 0.9), Frame(Line(12), library_, 9));
    }
    Call(kWait, Jitter(20 * kMs), Line(13));
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  ASSERT_NEAR(MedianMs(found), 640, 40) << "the batches are not to be seen";
  EXPECT_LE(found.confidence, kMostFromSamples);
}

// Ten turns are queued, then one result is awaited: single turns are not visible.
TEST_F(PythonStepsTest, WaitEveryTenTurns_IsNotSure) {
  for (int i = 0; i < 400; ++i) {
    Spend(Jitter(3 * kMs), Line(11));
    Spend(Jitter(3 * kMs), Line(12));
    if (i % 10 == 9) Call(kWait, Jitter(40 * kMs), Line(13));
  }
  Sample(10 * kMs);
  EXPECT_LE(Infer().confidence, kMostFromSamples);
}

TEST_F(PythonStepsTest, Generator_StepsAreItsConsumers) {
  const uint32_t loader = Function("batches", "/home/me/data.py");
  for (int i = 0; i < 120; ++i) {
    begins_.push_back(now_);
    Call(kAllocate, 20 * kUs, Frame(Line(10), loader, 30));
    Spend(Jitter(6 * kMs), Frame(Line(10), loader, 31 + i % 2));
    Call(kWait, Jitter(9 * kMs), Line(13));
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 120, 3);
  EXPECT_NEAR(MedianMs(found), 15, 1);
  ExpectBegins(found, kMs);
}

TEST_F(PythonStepsTest, Recursion_IsNoSureStep) {
  for (int i = 0; i < 300; ++i) {
    uint32_t stack = base_;
    const int depth = 1 + static_cast<int>(random_() % 12);
    for (int level = 0; level < depth; ++level) stack = Frame(stack, loop_, 20 + static_cast<int>(random_() % 2));
    Call(kAllocate, 10 * kUs, stack);
    Spend(static_cast<int64_t>(random_() % 20'000) * kUs, stack);
  }
  Sample(10 * kMs);
  EXPECT_LE(Infer().confidence, kMostFromSamples);
}

// The loop runs in one function for half of the run, then in another.
TEST_F(PythonStepsTest, LoopThatMoves_PeriodIsRightOrUnknown) {
  for (const char* name : {"warm", "tune"}) {
    loop_ = Function(name, "/home/me/train.py");
    for (int i = 0; i < 80; ++i) Turn(25 * kMs);
  }
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  if (!found.steps.empty()) {
    EXPECT_NEAR(MedianMs(found), 25, 1);
    EXPECT_GE(found.steps.size(), 76u);
  }
}

// A loop of microseconds with two lines, such as DataFrame.apply and its function: which of them a sample meets is
// chance, and any two lines alternate so.
TEST_F(PythonStepsTest, SamplesOfTwoLinesByChance_AreNoSteps) {
  int shown = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    timeline_.python.threads.clear();
    spent_.assign(1, {});
    now_ = 0;
    random_.seed(seed);
    for (int i = 0; i < 300; ++i) {
      Spend(10 * kMs, std::uniform_int_distribution<int>(0, 1)(random_) == 0 ? Line(11) : Line(12));
    }
    Sample(10 * kMs);
    shown += Infer().steps.empty() ? 0 : 1;
  }
  EXPECT_LE(shown, 1);
}

TEST_F(PythonStepsTest, TornSamples_SameStepsByCalls) {
  for (int i = 0; i < 100; ++i) Turn(30 * kMs);
  Sample(10 * kMs, 0.5);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 100, 3);
  ExpectBegins(found, kMs);
}

TEST_F(PythonStepsTest, MainThreadThatPolls_StepsAreTheWorkers) {
  AddThread();
  for (int i = 0; i < 150; ++i) Turn(20 * kMs, 1);
  const int64_t end = now_;
  for (now_ = 0; now_ < end;) Call(kWait, 50 * kMs, Line(70), 0, ETIMEDOUT);
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 150, 4);
  EXPECT_NEAR(MedianMs(found), 20, 1);
  ASSERT_FALSE(found.steps.empty());
  EXPECT_EQ(found.steps[0].thread, 1u);
}

TEST_F(PythonStepsTest, PollAlone_IsUnknown) {
  for (int i = 0; i < 200; ++i) Call(kWait, 50 * kMs, Line(70), 0, ETIMEDOUT);
  for (int i = 0; i < 200; ++i) Call(kSleep, 50 * kMs, Line(71));
  Sample(10 * kMs);
  EXPECT_TRUE(Infer().steps.empty());
}

TEST_F(PythonStepsTest, WaitsAtRandom_AreUnknown) {
  std::exponential_distribution<double> length(1);
  for (int i = 0; i < 400; ++i) {
    Spend(static_cast<int64_t>(length(random_) * 8'000) * kUs, Line(12));
    Call(kWait, static_cast<int64_t>(length(random_) * 4'000 + 100) * kUs, Line(13));
  }
  Sample(10 * kMs);
  EXPECT_LT(Infer().confidence, kLeastShown);
}

// A test runner calls a function of the program repeatedly.
TEST_F(PythonStepsTest, LoopOfALibrary_IsNotSure) {
  base_ = Frame(0, Function("run", "/usr/lib/python3/dist-packages/_pytest/runner.py"), 12);
  for (int i = 0; i < 100; ++i) Turn(30 * kMs);
  Sample(10 * kMs);
  EXPECT_LE(Infer().confidence, kMostFromSamples);
}

TEST_F(PythonStepsTest, NumPyLoop_IsAtMostLikely) {
  timeline_.processes[0].library = NumericLibrary::kLinearAlgebra;
  for (int i = 0; i < 100; ++i) Turn(30 * kMs);
  Sample(10 * kMs);
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 100, 3);
  EXPECT_LE(found.confidence, 0.65);
}

TEST_F(PythonStepsTest, NumPyThatIsNotUsed_IsUnknown) {
  timeline_.processes[0].library = NumericLibrary::kLinearAlgebra;
  numpy_ = timeline_.strings.Intern("_PyObject_Malloc (obmalloc.c:2003)");
  for (int i = 0; i < 100; ++i) Turn(30 * kMs);
  Sample(10 * kMs);
  EXPECT_TRUE(Infer().steps.empty());
}

TEST_F(PythonStepsTest, NoLibraryThatTrains_IsUnknown) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  for (int i = 0; i < 100; ++i) Turn(100 * kMs);
  Sample(10 * kMs);
  EXPECT_TRUE(Infer().steps.empty());
}

// A script calls a helper at one line for some time, and not after that.
// What repeats is refused, but its line is named: the user knows whether it is the step.
TEST_F(PythonStepsTest, LineThatTheUserChose_IsTheStep) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  for (int i = 0; i < 60; ++i) Turn(20 * kMs);
  Sample(10 * kMs);
  const InferredSteps refused = Infer();
  ASSERT_TRUE(refused.steps.empty());
  EXPECT_THAT(refused.unknown, testing::EndsWith("; if it is the step: --step-marker=train.py:11"));
  for (const char* chosen : {"train.py:13", "train.py:11 train", "train.py:90"}) {
    const InferredSteps found = StepsAtLine(timeline_, 0, StepNames(chosen));
    EXPECT_GE(found.steps.size(), 57u) << chosen;
    EXPECT_NEAR(MedianMs(found), 20, 1) << chosen;
    EXPECT_GE(found.confidence, kLeastShown) << chosen;
    EXPECT_LT(found.confidence, 1) << "where the loop begins is inferred";
    EXPECT_EQ(found.source, "Python line train.py:13 train");
    ExpectBegins(found, kMs);
  }
  for (const char* other : {"train.py:12", "eval.py:13", "train.py:130"}) {
    EXPECT_TRUE(StepsAtLine(timeline_, 0, StepNames(other)).steps.empty()) << other;
  }
}

TEST_F(PythonStepsTest, StepMarkerOfALine_IsTakenWhereNothingHasThatName) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  for (int i = 0; i < 60; ++i) Turn(20 * kMs);
  Sample(10 * kMs);
  timeline_.duration_ps = now_;
  ChooseSteps({.process = 0, .marker = "train.py:12"}, &timeline_);
  EXPECT_EQ(timeline_.step_source, StepSource::kWholeCapture);
  EXPECT_THAT(timeline_.warnings,
              testing::ElementsAre(testing::HasSubstr("no line that waits or allocates in each turn matches")));
  timeline_.steps.clear();
  timeline_.warnings.clear();
  ChooseSteps({.process = 0, .marker = "train.py:13"}, &timeline_);
  EXPECT_EQ(timeline_.step_source, StepSource::kInferred);
  EXPECT_GE(timeline_.steps.size(), 57u);
  EXPECT_TRUE(timeline_.warnings.empty());
}

// Where short calls were left out, lines do not repeat as they did: steps are those of the full detail.
TEST_F(PythonStepsTest, EventsCut_StepsAreOfTheFullDetail) {
  for (int i = 0; i < 60; ++i) Turn(20 * kMs);
  Sample(10 * kMs);
  timeline_.duration_ps = now_;
  timeline_.full_detail = {now_ / 2, now_};
  std::vector<Event>& events = timeline_.threads[0].events;
  std::erase_if(events,
                [this](const Event& event) { return event.start_ps < now_ / 2 && event.start_ps / kMs % 3 == 0; });
  const size_t kept = events.size();
  ChooseSteps({.process = 0, .marker = "", .events_cut = true}, &timeline_);
  EXPECT_EQ(timeline_.step_source, StepSource::kInferred);
  EXPECT_TRUE(timeline_.steps_in_detail);
  EXPECT_GE(timeline_.steps.size(), 27u);
  EXPECT_LE(timeline_.steps.size(), 30u);
  for (const Step& step : timeline_.steps) EXPECT_GE(step.start_ps, now_ / 2);
  EXPECT_EQ(events.size(), kept) << "the timeline has all its events again";
}

TEST_F(PythonStepsTest, EventsCutWithoutFullDetail_StepsAreUnknown) {
  for (int i = 0; i < 60; ++i) Turn(20 * kMs);
  Sample(10 * kMs);
  timeline_.duration_ps = now_;
  timeline_.full_detail = {0, 0};
  ChooseSteps({.process = 0, .marker = "", .events_cut = true}, &timeline_);
  EXPECT_EQ(timeline_.step_source, StepSource::kWholeCapture);
  EXPECT_FALSE(timeline_.steps_in_detail);
  EXPECT_THAT(timeline_.steps_unknown, testing::HasSubstr("(--max-profile-size)"));
}

// The choice says which loop is meant, not that its turns are right.
TEST_F(PythonStepsTest, ChosenLineWithUnsureTurns_HasNoSteps) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  int unsure = 0;
  for (int tenths = 1; tenths < 30; ++tenths) {
    timeline_.threads[0].events.clear();
    now_ = 0;
    for (int i = 0; i < 8 + tenths; ++i) {
      Spend(Jitter(5 * kMs, tenths / 30.0), Line(13));
      Call(kWait, Jitter(15 * kMs, tenths / 30.0), Line(13));
    }
    timeline_.duration_ps = now_;
    const std::vector<PythonSteps> found = DetectStepsInPython(timeline_, 0);
    if (found.empty() || found[0].found.confidence >= kLeastShown) continue;
    ++unsure;
    const InferredSteps chosen = StepsAtLine(timeline_, 0, StepNames("train.py:13"));
    EXPECT_TRUE(chosen.steps.empty()) << tenths;
    EXPECT_THAT(chosen.unknown, testing::HasSubstr("has a confidence of 0."));
  }
  EXPECT_GT(unsure, 0);
}

TEST_F(PythonStepsTest, PathThatAShellWouldChange_IsNotSuggested) {
  timeline_.processes[0].library = NumericLibrary::kNone;
  loop_ = Function("train", "/home/me/train (copy).py");
  for (int i = 0; i < 60; ++i) Turn(20 * kMs);
  Sample(10 * kMs);
  EXPECT_EQ(Infer().unknown, "the program loads no training library, so any loop may be one");
}

TEST_F(PythonStepsTest, SmallPartOfTheTime_IsUnknown) {
  for (int i = 0; i < 40; ++i) {
    Spend(Jitter(kMs), Line(12));
    Call(kWait, Jitter(9 * kMs), Line(13));
  }
  Spend(4000 * kMs, Line(40));
  Sample(10 * kMs);
  EXPECT_TRUE(Infer().steps.empty());
}

}  // namespace
}  // namespace tbprof
