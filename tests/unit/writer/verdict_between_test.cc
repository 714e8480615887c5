// SPDX-License-Identifier: Apache-2.0
// What runs between the steps, in libraries, and in processes that replace each other.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kLibrary[] = "/env/lib/python3.12/site-packages/keras/src/trainer.py";
constexpr char kLoader[] = "/env/lib/python3.12/site-packages/torch/utils/data/dataloader.py";

// Two regular steps, then three times as much as a step in which none is.
void MakeEvaluation(VerdictMaker* maker, uint32_t step, uint32_t evaluation) {
  for (size_t i = 0; i < maker->timeline.steps.size(); ++i) maker->timeline.steps[i].is_regular = i % 5 < 2;
  maker->EachStep(kStep, [&](int64_t at) {
    maker->Run(maker->main, at, kStep, at / kStep % 5 < 2 ? step : evaluation, maker->library);
  });
}

TEST(VerdictBetween, FunctionThatRunsOnlyThere_IsNamed) {
  VerdictMaker maker;
  const uint32_t fit = maker.Stack(maker.in_main, kLibrary, "Trainer.fit", 3);
  const uint32_t step = maker.Stack(fit, kOwn, "training_step", 20);
  const uint32_t loop = maker.Stack(fit, kLibrary, "Trainer.evaluation_loop", 90);
  MakeEvaluation(&maker, step, maker.Stack(loop, kOwn, "metrics", 30));
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.basis, VerdictBasis::kTraining);
  EXPECT_EQ(verdict.advice, Advice::kBetweenSteps);
  ASSERT_FALSE(verdict.facts.empty());
  EXPECT_EQ(verdict.facts.front(), "57 % of this time is between the steps: of it 100 % in metrics (train.py:30)");
  ASSERT_FALSE(verdict.where.empty());
  EXPECT_EQ(maker.timeline.strings.Get(verdict.where.front().function), "metrics");
  EXPECT_EQ(verdict.where.front().line, 30);
  EXPECT_NEAR(verdict.where.front().share, 0.57, 0.01);
}

TEST(VerdictBetween, OwnPartOfWhatALibraryRunsThere_IsNamedToo) {
  VerdictMaker maker;
  const uint32_t loop = maker.Stack(maker.in_main, kLibrary, "Trainer.evaluation_loop", 90);
  const uint32_t metrics = maker.Stack(loop, kOwn, "metrics", 30);
  for (size_t i = 0; i < maker.timeline.steps.size(); ++i) maker.timeline.steps[i].is_regular = i % 5 < 2;
  maker.EachStep(kStep, [&](int64_t at) {
    const bool is_step = at / kStep % 5 < 2;
    maker.Run(maker.main, at, kStep / 2, is_step ? maker.in_main : loop, maker.library);
    maker.Run(maker.main, at + kStep / 2, kStep / 2, is_step ? maker.in_main : metrics, maker.library);
  });
  EXPECT_EQ(maker.Make().facts.front(),
            "57 % of this time is between the steps: of it 100 % in Trainer.evaluation_loop "
            "(keras/src/trainer.py), 50 % in metrics (train.py:30)");
}

TEST(VerdictBetween, FunctionThatRunsInStepsToo_IsNotNamed) {
  VerdictMaker maker;
  MakeEvaluation(&maker, maker.in_main, maker.in_main);
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.facts.front(), "57 % of this time is between the steps");
  EXPECT_NE(verdict.advice, Advice::kBetweenSteps) << "turns of the loop that are no steps look the same";
}

// The first step compiles: that is not how the program spends its time.
TEST(VerdictBetween, OneGapBehindTheFirstStep_IsLeftOut) {
  for (const size_t first : {size_t{0}, size_t{20}}) {
    VerdictMaker maker;
    for (size_t i = 0; i < 15; ++i) maker.timeline.steps[first + 1 + i].is_regular = false;
    maker.EachStep(0, [](int64_t) {});
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.basis, first == 0 ? VerdictBasis::kSteps : VerdictBasis::kTraining) << first;
    EXPECT_EQ(verdict.facts.empty(), first == 0);
  }
}

// Somebody stopped the program: that is no time of the training.
TEST(VerdictBetween, StoppedTime_IsNotBetweenTheSteps) {
  VerdictMaker maker;
  for (size_t i = 10; i < 40; ++i) maker.timeline.steps[i].is_regular = false;
  maker.EachStep(0, [](int64_t) {});
  maker.timeline.blocked.push_back({.thread = maker.main});
  maker.timeline.blocked[0].runs.push_back({10 * kStep, 40 * kStep, 300, -1, BlockedIn::kStopped});
  const Verdict verdict = maker.Make();
  EXPECT_EQ(verdict.cause, Cause::kOperations);
  EXPECT_EQ(verdict.advice, Advice::kOfCause);
  EXPECT_THAT(verdict.facts, testing::Each(Not(HasSubstr("between the steps"))));
}

TEST(VerdictOfLibraries, PythonOfALibrary_IsNotToBeVectorized) {
  for (const bool is_library : {true, false}) {
    VerdictMaker maker;
    const uint32_t stack = is_library ? maker.Stack(maker.in_main, kLibrary, "Trainer.fit", 3) : maker.in_main;
    maker.EachStep(kStep, [&](int64_t at) { maker.Run(maker.main, at, kStep, stack, maker.interpreter); });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPython);
    EXPECT_EQ(verdict.advice, is_library ? Advice::kLibraryPython : Advice::kOfCause);
  }
}

// The time of its lines is small, that of the function large.
TEST(VerdictOfFunctions, FunctionWhoseLinesTakeLittleEach_IsToBeVectorized) {
  for (const bool is_spread : {true, false}) {
    VerdictMaker maker;
    const uint32_t first = maker.Stack(maker.in_main, kOwn, "PairLoss.__call__", 20);
    std::vector<uint32_t> lines = {first};
    for (int32_t line = 21; line < 28; ++line) {
      maker.timeline.python.stacks.push_back(
          {maker.in_main, maker.timeline.python.stacks[first].function, is_spread ? line : 20});
      lines.push_back(static_cast<uint32_t>(maker.timeline.python.stacks.size() - 1));
    }
    maker.EachStep(80 * kMs, [&](int64_t at) {
      for (size_t i = 0; i < lines.size(); ++i) {
        maker.Run(maker.main, at + static_cast<int64_t>(i) * 10 * kMs, 10 * kMs, lines[i], maker.interpreter);
      }
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPython);
    EXPECT_EQ(verdict.advice, is_spread ? Advice::kOwnFunction : Advice::kOfCause);
    const bool is_named = std::ranges::any_of(verdict.facts, [](const std::string& fact) {
      return fact == "PairLoss.__call__ (train.py) with all that it calls: 80 %";
    });
    EXPECT_EQ(is_named, is_spread);
  }
}

// PyTorch computes in floats unless told otherwise; for NumPy that is the usual type.
TEST(VerdictOfFunctions, MatricesOfDoublesInPyTorch_AreNamed) {
  for (const char* const module : {"libtorch_cpu.so", "libopenblas.so"}) {
    VerdictMaker maker;
    const uint32_t gemm = maker.Native(module, "mkl_blas_def_dgemm_kernel_zen", 0);
    maker.EachStep(kStep, [&](int64_t at) { maker.Run(maker.main, at, kStep, maker.in_main, gemm); });
    const Verdict verdict = maker.Make();
    const bool is_torch = std::string(module) == "libtorch_cpu.so";
    EXPECT_EQ(verdict.advice, is_torch ? Advice::kDoublePrecision : Advice::kOfCause);
    EXPECT_EQ(verdict.facts.size(), is_torch ? 1U : 0U);
  }
}

// Who collects requests for a batch waits for more of them up to a limit.
TEST(VerdictOfFunctions, QueueThatNobodyFills_IsWaitedForUntilTheTimeout) {
  for (const bool times_out : {true, false}) {
    VerdictMaker maker;
    const uint32_t gather = maker.Stack(maker.in_main, kOwn, "gather", 32);
    const uint32_t get = maker.Stack(gather, "/usr/lib/python3.12/queue.py", "Queue.get", 180);
    maker.EachStep(80 * kMs, [&](int64_t at) {
      maker.Wait(maker.main, kCondition, at, 80 * kMs, get);
      if (!times_out) return;
      Event& wait = maker.timeline.threads[maker.main].events.back();
      wait.flags |= Event::kFailed;
      wait.error = ETIMEDOUT;
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPrefetchThread);
    EXPECT_EQ(verdict.advice, times_out ? Advice::kTimeouts : Advice::kNoBlocker);
    EXPECT_EQ(
        CauseTitle(verdict.cause, verdict.advice),
        times_out ? "waits that end by their timeouts" : "waits for another thread or process, which is not known");
  }
}

// A rank that saves nothing waits for the one that does.
TEST(VerdictOfLibraries, CheckpointsOfFrameworks_AreNamed) {
  for (const bool waits : {false, true}) {
    VerdictMaker maker;
    const uint32_t save =
        maker.Stack(maker.in_main, "/env/lib/python3.12/site-packages/lightning/pytorch/trainer/trainer.py",
                    "Trainer.save_checkpoint", 1300);
    const uint32_t barrier =
        maker.Stack(save, "/env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", "barrier", 4000);
    maker.EachStep(60 * kMs, [&](int64_t at) {
      if (waits) {
        maker.Wait(maker.main, kCondition, at, 60 * kMs, barrier);
      } else {
        maker.Run(maker.main, at, 60 * kMs, save, maker.library);
      }
    });
    maker.Expect(waits ? Cause::kCollectives : Cause::kCheckpoint, waits ? StepPart::kCollectives : StepPart::kDisk,
                 0.6);
  }
}

// Waits of the main thread for a loader, 80 ms of each step.
class LoaderVerdict : public testing::Test {
 protected:
  void WaitInEachStep(const std::function<void(int64_t)>& visit) {
    const uint32_t next = maker_.Stack(maker_.in_main, kLoader, "_next_data", 1);
    maker_.EachStep(80 * kMs, [&, next](int64_t at) {
      maker_.Wait(maker_.main, kCondition, at, 80 * kMs, next);
      visit(at);
    });
  }
  VerdictMaker maker_;
};

TEST_F(LoaderVerdict, ProcessThatCleansUp_IsNoBlocker) {
  const uint32_t tracker = maker_.Thread("", true, maker_.Process(101, 0));
  const uint32_t worker = maker_.Thread("", true, maker_.Process(102, 0));
  const uint32_t reads = maker_.Stack(0, "/usr/lib/python3.12/multiprocessing/resource_tracker.py", "main", 227);
  const uint32_t load = maker_.Stack(0, kOwn, "load", 33);
  WaitInEachStep([&](int64_t at) {
    maker_.Wait(tracker, kPread, at, 80 * kMs, reads);
    maker_.Run(worker, at, 50 * kMs, load, maker_.library);
  });
  maker_.timeline.python.threads[tracker].tallies.push_back({.stack = reads, .samples = 1});
  maker_.ExpectBlocker("train.py:33");
}

TEST_F(LoaderVerdict, WorkersThatReplaceOneAnother_AddUp) {
  const uint32_t load = maker_.Stack(0, kOwn, "load", 33);
  std::vector<uint32_t> workers;
  for (int i = 0; i < 2; ++i) workers.push_back(maker_.Thread("", true, maker_.Process(101 + i, 0)));
  constexpr int64_t kHalf = kSteps / 2 * kStep;
  maker_.timeline.threads[workers[0]].end_ps = kHalf;
  maker_.timeline.threads[workers[1]].start_ps = kHalf;
  WaitInEachStep([&](int64_t at) { maker_.Run(workers[at < kHalf ? 0 : 1], at, 80 * kMs, load, maker_.library); });
  EXPECT_THAT(maker_.Make().facts,
              testing::Contains(HasSubstr("these 2 processes, one after the other, work, sleep or read for 100 %")));
}

// They wait for their next task: the batches are on their way.
TEST_F(LoaderVerdict, IdleWorkers_AreNoBlockers) {
  const uint32_t worker = maker_.Thread("", true, maker_.Process(101, 0));
  const uint32_t begin =
      maker_.Stack(maker_.in_main, "/usr/lib/python3.12/multiprocessing/process.py", "BaseProcess._bootstrap", 314);
  const uint32_t loop =
      maker_.Stack(begin, "/env/lib/python3.12/site-packages/torch/utils/data/_utils/worker.py", "_worker_loop", 320);
  const auto poll = static_cast<uint16_t>(maker_.timeline.types.size() - 1);
  WaitInEachStep([&](int64_t at) {
    maker_.Wait(worker, poll, at, 79 * kMs, loop);
    maker_.timeline.threads[worker].events.back().value = 1;
    maker_.Wait(worker, kPread, at + 79 * kMs, kMs, loop);
    maker_.Run(worker, at + 80 * kMs, kMs, loop, maker_.library);
  });
  const Verdict verdict = maker_.Make();
  EXPECT_EQ(verdict.cause, Cause::kSlowLoader);
  EXPECT_EQ(verdict.advice, Advice::kHandsOver);
  EXPECT_EQ(verdict.where.back().role, WhereRole::kSpends);
}

TEST_F(LoaderVerdict, WorkersAtTheSameTime_DoNotAddUp) {
  const uint32_t load = maker_.Stack(0, kOwn, "load", 33);
  std::vector<uint32_t> workers;
  for (int i = 0; i < 2; ++i) workers.push_back(maker_.Thread("", true, maker_.Process(101 + i, 0)));
  WaitInEachStep([&](int64_t at) {
    for (const uint32_t worker : workers) maker_.Run(worker, at, 40 * kMs, load, maker_.library);
  });
  EXPECT_THAT(maker_.Make().facts, testing::Contains(HasSubstr("for 50 % of the wait, as does 1 more")));
}

}  // namespace
}  // namespace tbprof
