// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/torch_steps.h"
#include "wire/records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/writer/torch_maker.h"
#include "writer/convert/step_choice.h"

namespace tbprof {
namespace {

class TorchStepsTest : public testing::Test, protected TorchMaker {
 protected:
  // The ranges of training steps. The start of each step is remembered as the truth.
  void Train(int steps, int batches = 1) {
    for (int step = 0; step < steps; ++step) {
      begins_.push_back(now);
      for (int i = 0; i < batches; ++i) {
        Batch();
        Pass();
        PassBack();
        Idle();
      }
      Optimizer();
      Idle(20);
    }
  }
  void Evaluate(int batches) {
    for (int i = 0; i < batches; ++i) {
      Batch();
      Pass();
      Idle();
    }
    EndOfData();
  }
  // A step of a GAN.
  void DiscriminatorAndGenerator() {
    Op("conv2d");
    PassBack();
    Optimizer("Adam");
    Op("conv_transpose2d");
    Op("tanh");
    Backward("ConvolutionBackward0");
    Optimizer("Adam");
    Idle(100);
  }
  void EndOfData() { Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser, 2); }

  // Removes the operations from `from` to now and adds a pause, as the observer does.
  void LeaveOut(int64_t from) {
    std::erase_if(timeline.threads[0].events, [&](const Event& event) {
      return event.start_ps >= from && timeline.types[event.type].origin != RangeOrigin::kTorchUser;
    });
    const int64_t end = now;
    on = Thread();
    timeline.threads[on].is_line = true;
    now = from;
    Range(kTorchPause, RangeOrigin::kTorchUser, (end - from) / kUs);
    on = 0;
    now = end;
  }

  MarkedSteps Find(uint32_t process = 0) {
    found_ = FindTorchSteps(Done(), process);
    for (size_t i = 1; i < found_.steps.size(); ++i) EXPECT_GE(found_.steps[i].start_ps, found_.steps[i - 1].end_ps);
    return found_;
  }
  std::vector<int64_t> Begins(bool regular = true) const {
    std::vector<int64_t> begins;
    for (const Step& step : found_.steps) {
      if (step.is_regular == regular) begins.push_back(step.start_ps);
    }
    return begins;
  }
  size_t Count(const std::string& name) const {
    return static_cast<size_t>(
        std::count_if(found_.steps.begin(), found_.steps.end(), [&](const Step& step) { return step.name == name; }));
  }

  std::vector<int64_t> begins_;
  MarkedSteps found_;
};

TEST_F(TorchStepsTest, EmptyTimeline_HasNoSteps) {
  EXPECT_TRUE(Find().steps.empty());
  for (int i = 0; i < 20; ++i) Pass();
  EXPECT_TRUE(Find().steps.empty());
  EXPECT_TRUE(FindTorchSteps(Timeline(), 3).steps.empty());
}

TEST_F(TorchStepsTest, Batches_StepsGoFromBatchToBatch) {
  Idle(1000);
  Train(20);
  EndOfData();
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(found.source, "Optimizer.step");
  EXPECT_GE(found.confidence, 0.95);
  EXPECT_EQ(found.steps[7].number, 7);
  EXPECT_EQ(found.steps[7].end_ps, begins_[8]);
  EXPECT_EQ(Count("data only"), 1u);
}

TEST_F(TorchStepsTest, AccumulatedGradients_AreOneStep) {
  Train(12, 4);
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_GE(found.confidence, 0.9);
}

// Among the parts that were recorded, every second is alike by chance.
TEST_F(TorchStepsTest, EvaluationInEveryTenthStep_IsNoPeriod) {
  const auto step = [&](bool evaluates) {
    Pass();
    PassBack();
    Optimizer();
    for (int i = 0; evaluates && i < 40; ++i) Op("argmax");
    Idle(20);
  };
  for (int block = 0; block < 6; ++block) {
    for (int i = 0; i < 4; ++i) step(/*evaluates=*/block == 0 && i == 1);
    const int64_t from = now;
    for (int i = 0; i < 7; ++i) step(/*evaluates=*/block > 0 && i == 5);
    LeaveOut(from);
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(found.steps.size(), 65u);
  EXPECT_GE(found.confidence, 0.7);
}

TEST_F(TorchStepsTest, Evaluations_AreNoSteps) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    Train(10);
    EndOfData();
    Evaluate(6);
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(Count("evaluation"), 3u);
  EXPECT_GE(found.confidence, 0.9);
}

TEST_F(TorchStepsTest, EvaluationAfterEachStep_IsNoStep) {
  for (int step = 0; step < 10; ++step) {
    Train(1);
    Batch();
    Pass();
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(Count("evaluation"), 10u);
}

// Hugging Face's Trainer takes all batches of a step, and counts their labels, before it works on the first.
TEST_F(TorchStepsTest, BatchesTakenAhead_AreNoEvaluations) {
  for (int step = 0; step < 10; ++step) {
    begins_.push_back(now);
    Batch();
    Op("ne", 2);
    Batch();
    Pass();
    PassBack();
    Pass();
    PassBack();
    Optimizer();
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(Count("evaluation"), 0u);
  EXPECT_GE(found.confidence, 0.9);
}

// Without the records of the backward pass, one step of two batches is equally likely.
TEST_F(TorchStepsTest, NoOperations_EvaluationAfterEachStepIsAmbiguous) {
  for (int step = 0; step < 10; ++step) {
    Train(1);
    Batch();
  }
  std::erase_if(timeline.threads[0].events,
                [&](const Event& event) { return timeline.types[event.type].origin == RangeOrigin::kTorchBackward; });
  EXPECT_LE(Find().confidence, 0.7);
}

TEST_F(TorchStepsTest, OptimizersAndLoadersOnly_StepsAreFound) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    Train(10);
    EndOfData();
    Evaluate(6);
  }
  std::erase_if(timeline.threads[0].events,
                [&](const Event& event) { return timeline.types[event.type].origin != RangeOrigin::kTorchUser; });
  timeline.shortest_shown_ps = 1;
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
}

// The profile's size left out most operations: only where all are kept do they show which optimizers make one step.
TEST_F(TorchStepsTest, OperationsCut_StepsAreThoseOfTheFullDetail) {
  for (const bool has_detail : {true, false}) {
    timeline.threads[0].events.clear();
    now = 0;
    std::vector<int64_t> starts;
    for (int i = 0; i < 60; ++i) {
      starts.push_back(now);
      Pass();
      PassBack();
      Optimizer();
    }
    timeline.shortest_shown_ps = 1;
    timeline.full_detail = {0, 0};
    if (has_detail) timeline.full_detail = {starts[30], starts[45]};
    // Those of each fourth step were longer.
    std::erase_if(timeline.threads[0].events, [&](const Event& event) {
      const auto step = std::ranges::upper_bound(starts, event.start_ps) - starts.begin() - 1;
      const bool is_kept = step % 4 == 0 || (has_detail && step >= 30 && step < 45);
      return !is_kept && timeline.types[event.type].origin != RangeOrigin::kTorchUser;
    });
    const MarkedSteps found = Find();
    EXPECT_GE(Begins().size(), 58u) << has_detail;
    EXPECT_LE(found.confidence, has_detail ? 0.8 : 0.6);
  }
}

// Accumulation over two batches, with an evaluation that differs only by its missing backward pass. Most operations are
// not recorded.
TEST_F(TorchStepsTest, OperationsLeftOut_StepsFollowTheRecordedOnes) {
  int64_t pause = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    if (epoch == 2) pause = now;
    Train(5, 2);
    Evaluate(3);
  }
  LeaveOut(pause);
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(Count("evaluation"), 10u);
  EXPECT_GE(found.confidence, 0.9);
}

TEST_F(TorchStepsTest, SkippedOptimizer_StepsAreFound) {
  for (int i = 0; i < 12; ++i) {
    begins_.push_back(now);
    Batch();
    Pass();
    PassBack();
    if (i != 3 && i != 4) Optimizer();
    Idle(20);
  }
  Find();
  EXPECT_EQ(Begins(), begins_);
}

TEST_F(TorchStepsTest, LoaderOneBatchAhead_StepsAreFound) {
  Batch();
  for (int i = 0; i < 12; ++i) {
    Batch();
    Pass();
    PassBack();
    Optimizer();
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins().size(), 12u);
  EXPECT_GE(found.confidence, 0.9);
}

TEST_F(TorchStepsTest, TwoLoadersForEachStep_StepsAreFound) {
  for (int i = 0; i < 12; ++i) {
    begins_.push_back(now);
    Batch();
    Batch();
    Pass();
    PassBack();
    Optimizer();
  }
  Find();
  EXPECT_EQ(Begins(), begins_);
}

TEST_F(TorchStepsTest, BothHalvesOfAGan_AreOneStep) {
  for (const bool loader : {true, false}) {
    timeline.threads[0].events.clear();
    begins_.clear();
    std::vector<int64_t> ends;
    for (int i = 0; i < 24; ++i) {
      begins_.push_back(now);
      if (loader) Batch();
      Op("conv2d");
      Op("conv2d");
      PassBack();
      Optimizer("Adam");
      Op("conv_transpose2d");
      Op("tanh");
      Op("conv2d");
      Backward("ConvolutionBackward0");
      Optimizer("Adam");
      ends.push_back(now);
      Idle(100);
    }
    const MarkedSteps found = Find();
    if (loader) {
      EXPECT_EQ(Begins(), begins_);
      EXPECT_GE(found.confidence, 0.9);
    } else {
      EXPECT_EQ(Begins(), std::vector<int64_t>(ends.begin(), ends.end() - 1));
      EXPECT_LE(found.confidence, 0.9);
      EXPECT_GT(found.confidence, 0.7);
    }
  }
}

TEST_F(TorchStepsTest, SeveralCriticsAndAGenerator_AreOneStep) {
  for (int i = 0; i < 12; ++i) {
    for (int critic = 0; critic < 5; ++critic) {
      Pass();
      PassBack();
      Optimizer("Adam");
    }
    Op("conv_transpose2d");
    Op("tanh");
    Backward("ConvolutionBackward0");
    Optimizer("Adam");
    begins_.push_back(now);
    Idle(100);
  }
  Find();
  EXPECT_EQ(Begins(), std::vector<int64_t>(begins_.begin(), begins_.end() - 1));
}

TEST_F(TorchStepsTest, TwoOptimizersInARow_AreOneStep) {
  for (int i = 0; i < 12; ++i) {
    Pass();
    PassBack();
    Optimizer("Adam");
    Op("_foreach_norm");
    Optimizer("SGD");
    begins_.push_back(now);
    Idle(30);
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), std::vector<int64_t>(begins_.begin(), begins_.end() - 1));
  EXPECT_GE(found.confidence, 0.9);
}

TEST_F(TorchStepsTest, AmbiguousHalves_LowConfidence) {
  for (int i = 0; i < 24; ++i) {
    Pass();
    PassBack();
    Optimizer("Adam");
    Idle(i % 2 == 0 ? 5 : 400);
  }
  EXPECT_LE(Find().confidence, 0.7);
}

TEST_F(TorchStepsTest, NoLoader_StepsGoFromOptimizerToOptimizer) {
  for (int i = 0; i < 30; ++i) {
    Op("randint");
    Pass();
    PassBack();
    if (i % 10 == 0) Op("item");
    Optimizer("AdamW");
    begins_.push_back(now);
    Idle();
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), std::vector<int64_t>(begins_.begin(), begins_.end() - 1));
  EXPECT_GE(found.confidence, 0.9);
}

TEST_F(TorchStepsTest, BatchAloneAtTheEnd_IsNoStep) {
  Train(5);
  Batch();
  LeaveOut(0);
  EXPECT_EQ(Begins(), std::vector<int64_t>());
  Find();
  EXPECT_EQ(Begins(), begins_);
}

TEST_F(TorchStepsTest, NoLoaderAndOperationsLeftOut_StepsAreFound) {
  int64_t pause = 0;
  for (int step = 0; step < 100; ++step) {
    if (step == 20) pause = now;
    Pass();
    PassBack();
    Optimizer();
    begins_.push_back(now);
    Idle();
  }
  LeaveOut(pause);
  const MarkedSteps found = Find();
  begins_.pop_back();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(Begins(false).size(), 0u);
  EXPECT_GE(found.confidence, 0.8);
}

TEST_F(TorchStepsTest, ClosureOfTheOptimizer_StepsAreFound) {
  for (int i = 0; i < 12; ++i) {
    begins_.push_back(now);
    Batch();
    Range("Optimizer.step#Adam.step", RangeOrigin::kTorchUser, [&] {
      Pass();
      PassBack();
      Op("_foreach_add_");
    });
  }
  Find();
  EXPECT_EQ(Begins(), begins_);
  timeline.threads[0].events.clear();
  for (int i = 0; i < 12; ++i) {
    Range("Optimizer.step#LBFGS.step", RangeOrigin::kTorchUser, [&] {
      Pass();
      PassBack();
    });
    Idle();
  }
  Find();
  EXPECT_EQ(Begins().size(), 11u);
}

TEST_F(TorchStepsTest, OptimizersInTheBackwardPass_StepsNeedALoader) {
  for (const bool loader : {true, false}) {
    timeline.threads[0].events.clear();
    begins_.clear();
    for (int i = 0; i < 12; ++i) {
      begins_.push_back(now);
      if (loader) Batch();
      Pass();
      for (int parameter = 0; parameter < 6; ++parameter) {
        Range("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", RangeOrigin::kTorchBackward,
              [&] { Optimizer(); });
      }
    }
    Batch();
    const MarkedSteps found = Find();
    if (loader) {
      EXPECT_EQ(Begins(), begins_);
    } else {
      EXPECT_TRUE(Begins().empty()) << "nothing tells which of them end a step";
    }
  }
}

TEST_F(TorchStepsTest, Inference_StepsGoFromBatchToBatch) {
  for (int i = 0; i < 20; ++i) {
    begins_.push_back(now);
    Batch();
    Pass();
  }
  EndOfData();
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(found.source, "DataLoader");
  EXPECT_GE(found.confidence, 0.9);
}

// Reinforcement learning: optimizers in series, and long collections between these, far longer than the gaps.
TEST_F(TorchStepsTest, SeriesWithLongTimesBetween_KeepEachStepWhereOperationsAreLeftOut) {
  for (const int series : {24, 8}) {
    SCOPED_TRACE(series);
    static_cast<TorchMaker&>(*this) = TorchMaker();
    for (int round = 0; round < 6; ++round) {
      Idle(4'000'000);
      const int64_t pause = now;
      for (int step = 0; step < series; ++step) {
        Pass();
        PassBack();
        Optimizer("Adam", 900);
      }
      if (round % 2 == 1) LeaveOut(pause);
    }
    Done();
    const MarkedSteps found = FindTorchSteps(timeline, 0);
    EXPECT_EQ(found.steps.size(), static_cast<size_t>(6 * series - 1));
    EXPECT_GE(found.confidence, 0.7);
  }
}

TEST_F(TorchStepsTest, WarmUpAndPauses_AreInNoStatistics) {
  for (int i = 0; i < 30; ++i) {
    Batch(i == 0 ? 5000 : 50);
    Pass();
    PassBack();
    Optimizer();
    Idle(i == 20 ? 50'000 : 5);
  }
  Find();
  EXPECT_EQ(Count("warm-up"), 1u);
  EXPECT_EQ(Count("irregular: a pause"), 1u);
  EXPECT_EQ(Begins().size(), 28u);
}

// Some steps are long, as when other programs use the CPUs.
TEST_F(TorchStepsTest, ManyLongSteps_AreNoPauses) {
  for (int i = 0; i < 100; ++i) {
    Batch();
    Pass();
    PassBack();
    Optimizer();
    Idle(i % 4 == 3 ? 50'000 : 5);
  }
  Find();
  EXPECT_EQ(Count("irregular: a pause"), 0u);
  EXPECT_EQ(Begins().size(), 100u);
}

TEST_F(TorchStepsTest, StepsCutByTheWindow_AreLeftOut) {
  // The window begins inside an accumulation, and ends before an optimizer.
  Pass();
  PassBack();
  Optimizer();
  Train(10, 2);
  Batch();
  Pass();
  PassBack();
  Find();
  EXPECT_EQ(Begins(), begins_);
  std::vector<Event>& events = timeline.threads[0].events;
  events.erase(events.begin(), events.begin() + 20);
  while (timeline.types[events.front().type].name.find("DataLoader") == std::string::npos) events.erase(events.begin());
  Find();
  EXPECT_LE(Begins().size(), begins_.size());
  for (const int64_t begin : Begins()) EXPECT_TRUE(std::binary_search(begins_.begin(), begins_.end(), begin));
}

TEST_F(TorchStepsTest, BackwardPassOnAnotherThread_StepsAreFound) {
  const uint32_t autograd = Thread();
  for (int i = 0; i < 12; ++i) {
    begins_.push_back(now);
    for (int part = 0; part < 2; ++part) {
      Batch();
      Pass();
      on = autograd;
      PassBack();
      on = 0;
    }
    Optimizer();
    if (i % 3 == 2) Evaluate(3);
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_EQ(Count("evaluation"), 4u);
  EXPECT_GE(found.confidence, 0.9);
  EXPECT_EQ(found.steps[0].thread, 0u);
}

TEST_F(TorchStepsTest, OneBatchForManyOptimizers_LowConfidence) {
  for (int i = 0; i < 8; ++i) {
    Batch();
    for (int part = 0; part < 10; ++part) {
      Pass();
      PassBack();
      Optimizer();
    }
  }
  const MarkedSteps found = Find();
  EXPECT_GE(Begins().size(), 70u);
  EXPECT_LE(found.confidence, 0.7);
}

// The batches are made by hand; only an evaluation has a loader.
TEST_F(TorchStepsTest, TwoOptimizersAndALoaderForEvaluation_AreNotOneStep) {
  for (int round = 0; round < 8; ++round) {
    for (int step = 0; step < 30; ++step) {
      DiscriminatorAndGenerator();
    }
    Evaluate(4);
  }
  const MarkedSteps found = Find();
  EXPECT_NEAR(static_cast<double>(Begins().size()), 240, 10);
  EXPECT_LE(found.confidence, 0.7);
}

TEST_F(TorchStepsTest, TrainingWithoutALoaderBehindOneWith_IsNotOneStep) {
  Train(100);
  EndOfData();
  for (int i = 0; i < 400; ++i) {
    Pass();
    PassBack();
    Optimizer();
  }
  const MarkedSteps found = Find();
  EXPECT_NEAR(static_cast<double>(Begins().size()), 499, 3);
  EXPECT_LE(found.confidence, 0.7);
}

// What an end of the data is followed by is not known where operations are left out.
TEST_F(TorchStepsTest, EpochsWhereOperationsAreLeftOut_AreNoEvaluations) {
  int64_t pause = 0;
  for (int epoch = 0; epoch < 6; ++epoch) {
    if (epoch == 1) pause = now;
    Train(25);
    EndOfData();
  }
  LeaveOut(pause);
  const MarkedSteps found = Find();
  EXPECT_EQ(Count("evaluation"), 0u);
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_EQ(found.loops[0].what, "epochs");
  EXPECT_EQ(found.loops[0].count, 6u);
}

// Its batches take a third of those that are trained on.
TEST_F(TorchStepsTest, ShortEvaluationsWhereOperationsAreLeftOut_AreEvaluations) {
  int64_t pause = 0;
  for (int epoch = 0; epoch < 6; ++epoch) {
    if (epoch == 1) pause = now;
    Train(25);
    for (int i = 0; i < 5; ++i) Batch(20);
    EndOfData();
  }
  LeaveOut(pause);
  Find();
  EXPECT_GE(Count("evaluation"), 5u);
}

TEST_F(TorchStepsTest, UpdatesOfReinforcementLearning_IterationsAreNamed) {
  for (const int64_t rollout : {40, 400, 4000}) {
    for (const bool operations : {true, false}) {
      timeline.threads[0].events.clear();
      const int64_t from = now;
      for (int iteration = 0; iteration < 40; ++iteration) {
        for (int i = 0; i < 10; ++i) {
          Op("multinomial");
          Idle(rollout / 10);
        }
        for (int update = 0; update < 16; ++update) {
          Pass();
          PassBack();
          Optimizer("Adam");
          Idle(2);
        }
      }
      if (!operations) LeaveOut(from);
      const MarkedSteps found = Find();
      EXPECT_NEAR(static_cast<double>(found.steps.size()), 639, 1);
      EXPECT_LE(found.confidence, 0.7) << rollout << operations;
      ASSERT_EQ(found.loops.size(), 1u) << rollout << operations;
      EXPECT_EQ(found.loops[0].what, "iterations");
      EXPECT_EQ(found.loops[0].count, 40u);
      EXPECT_DOUBLE_EQ(found.loops[0].steps_each, 16);
      EXPECT_TRUE(found.loops[0].may_be_step);
    }
  }
}

TEST_F(TorchStepsTest, BusyMachine_IterationsAreNamed) {
  std::mt19937 random(7);
  for (int iteration = 0; iteration < 40; ++iteration) {
    Op("multinomial");
    Idle(3000 + static_cast<int64_t>(random() % 20000));
    for (int update = 0; update < 16; ++update) {
      Pass();
      PassBack();
      Optimizer("Adam");
      // Other programs use the machine for a while.
      Idle(random() % 4 == 0 ? 5000 + static_cast<int64_t>(random() % 20000) : 2);
    }
  }
  const MarkedSteps found = Find();
  EXPECT_LE(found.confidence, 0.7);
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_EQ(found.loops[0].count, 40u);
  EXPECT_DOUBLE_EQ(found.loops[0].steps_each, 16);
}

TEST_F(TorchStepsTest, IterationsOfFourUpdates_BothAreNamed) {
  for (int iteration = 0; iteration < 40; ++iteration) {
    for (int i = 0; i < 10; ++i) Op("multinomial");
    Idle(400);
    for (int update = 0; update < 4; ++update) {
      Pass();
      PassBack();
      Optimizer("Adam");
    }
  }
  const MarkedSteps found = Find();
  EXPECT_LE(found.confidence, 0.7);
  ASSERT_EQ(found.loops.size(), 1u);
  const bool iterations = found.steps.size() < 60;
  EXPECT_NEAR(static_cast<double>(found.loops[0].count), iterations ? 160 : 40, 4) << found.steps.size();
}

// Workers that prepare a batch each compete with every third step for the CPU.
TEST_F(TorchStepsTest, EachThirdStepLong_StepsAreSure) {
  Train(3);
  for (int turn = 0; turn < 30; ++turn) {
    Train(1);
    Idle(300);
    Train(2);
  }
  const MarkedSteps found = Find();
  EXPECT_EQ(Begins(), begins_);
  EXPECT_GE(found.confidence, 0.9);
  EXPECT_TRUE(found.loops.empty());
}

TEST_F(TorchStepsTest, Epochs_AreNamedAndStepsAreSure) {
  for (const bool evaluates : {false, true}) {
    timeline.threads[0].events.clear();
    begins_.clear();
    for (int epoch = 0; epoch < 6; ++epoch) {
      Train(25);
      EndOfData();
      if (evaluates) Evaluate(6);
    }
    const MarkedSteps found = Find();
    EXPECT_EQ(Begins(), begins_);
    EXPECT_GE(found.confidence, 0.9);
    ASSERT_EQ(found.loops.size(), 1u);
    EXPECT_EQ(found.loops[0].count, 6u);
    EXPECT_DOUBLE_EQ(found.loops[0].steps_each, 25);
    EXPECT_FALSE(found.loops[0].may_be_step);
  }
}

TEST_F(TorchStepsTest, Folds_AreNamed) {
  for (int fold = 0; fold < 5; ++fold) {
    for (int i = 0; i < 20; ++i) Op("uniform_");
    Idle(3000);
    for (int step = 0; step < 30; ++step) {
      Pass();
      PassBack();
      Optimizer();
      Idle();
    }
  }
  const MarkedSteps found = Find();
  EXPECT_LE(found.confidence, 0.7);
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_EQ(found.loops[0].count, 5u);
  EXPECT_DOUBLE_EQ(found.loops[0].steps_each, 30);
}

TEST_F(TorchStepsTest, PartsOfAStep_AreNamed) {
  Train(12, 4);
  MarkedSteps found = Find();
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_EQ(found.loops[0].what, "batches");
  EXPECT_EQ(found.loops[0].count, 48u);
  EXPECT_DOUBLE_EQ(found.loops[0].steps_each, 0.25);
  timeline.threads[0].events.clear();
  for (int i = 0; i < 24; ++i) {
    Batch();
    DiscriminatorAndGenerator();
  }
  found = Find();
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_EQ(found.loops[0].what, "optimizer calls");
  EXPECT_EQ(found.loops[0].count, 48u);
}

TEST_F(TorchStepsTest, SimpleLoop_HasNoOtherLoops) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    Batch();
    Pass();
    PassBack();
    Optimizer();
    // Random pauses and long steps.
    Idle(random() % 9 == 0 ? 2000 : 20);
  }
  const MarkedSteps found = Find();
  EXPECT_TRUE(found.loops.empty()) << found.loops[0].what << " " << found.loops[0].count;
  EXPECT_GE(found.confidence, 0.95);
}

TEST_F(TorchStepsTest, LostRecords_LowerTheConfidence) {
  Train(30);
  std::vector<Event>& events = timeline.threads[0].events;
  size_t optimizers = 0, batches = 0;
  std::erase_if(events, [&](const Event& event) {
    const std::string& name = timeline.types[event.type].name;
    return (name.starts_with("Optimizer") && ++optimizers == 9) || (name.starts_with("enumerate") && ++batches == 17);
  });
  timeline.drops.push_back({"no free chunk", 2});
  const MarkedSteps found = Find();
  EXPECT_LE(found.confidence, 0.8);
  EXPECT_EQ(Begins().size(), 28u) << "the two that one loader's range would have parted are no step";
  EXPECT_EQ(Count("irregular: records lost"), 1u);
}

// Random ranges in random order.
TEST_F(TorchStepsTest, RandomTimelines_StepsAreInOrder) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    timeline.threads[0].events.clear();
    now = 0;
    const std::function<void(int)> anything = [&](int depth) {
      for (uint32_t i = random() % 30; i > 0; --i) {
        const auto inside = [&] {
          if (depth > 0) anything(depth - 1);
          Idle(random() % 4);
        };
        switch (random() % 6) {
          case 0:
            Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser, inside);
            break;
          case 1:
            Range(random() % 3 == 0 ? "Optimizer.step#SGD.step" : "Optimizer.step#Adam.step", RangeOrigin::kTorchUser,
                  inside);
            break;
          case 2:
            Range("MmBackward0", RangeOrigin::kTorchBackward, inside);
            break;
          default:
            Range(random() % 2 == 0 ? "aten::mm" : "aten::relu", RangeOrigin::kTorchOperation, inside);
        }
        Event& event = timeline.threads[0].events[random() % timeline.threads[0].events.size()];
        if (random() % 50 == 0) event.flags |= Event::kClippedAtEnd;
      }
    };
    anything(static_cast<int>(seed % 4));
    timeline.drops.clear();
    if (seed % 5 == 0) timeline.drops.push_back({"no free chunk", 1});
    for (const Step& step : Find().steps) {
      EXPECT_GE(step.start_ps, 0);
      EXPECT_LT(step.start_ps, step.end_ps);
      EXPECT_LE(step.end_ps, timeline.duration_ps);
    }
    EXPECT_LE(found_.confidence, 0.95);
  }
}

TEST_F(TorchStepsTest, SeveralProcesses_ProcessOfInterestIsPreferred) {
  timeline.processes.emplace_back();
  on = Thread(1);
  Train(9);
  EXPECT_EQ(Find().steps.size(), 9u) << "another's, where it has none";
  on = 0;
  Train(4);
  EXPECT_EQ(Find().steps.size(), 4u);
}

// An elastic launcher starts a rank again after a failure.
TEST_F(TorchStepsTest, RankStartedAgain_StepsAreOfItsLastProcess) {
  timeline.processes.resize(2);
  for (int i = 0; i < 2; ++i) {
    timeline.processes[static_cast<size_t>(i)].rank = 0;
    timeline.processes[static_cast<size_t>(i)].pid = 100 + i;
  }
  Train(30);
  timeline.processes[0].end_ps = now;
  Idle(1000);
  timeline.processes[1].start_ps = now;
  on = Thread(1);
  Train(20);
  EXPECT_EQ(Find().steps.size(), 20u);
  timeline.processes[1].rank = 1;
  EXPECT_EQ(Find().steps.size(), 30u) << "another rank is no later attempt";
  timeline.processes[1].rank = 0;
  timeline.processes[1].start_ps = timeline.processes[0].end_ps - 1;
  EXPECT_EQ(Find().steps.size(), 30u) << "it ran beside the first";
}

TEST_F(TorchStepsTest, LastProcessOfARankThatHardlyBegan_IsNotTheOne) {
  timeline.processes.resize(2);
  for (Process& process : timeline.processes) process.rank = 0;
  timeline.processes[1].pid = 1;
  Train(60);
  timeline.processes[0].end_ps = now;
  timeline.processes[1].start_ps = now;
  on = Thread(1);
  Train(4);
  EXPECT_EQ(Find().steps.size(), 60u);
}

// A capture that is short beside the steps.
TEST_F(TorchStepsTest, OneStep_IsUnknownWithTheReason) {
  Pass();
  PassBack();
  Optimizer();
  timeline.duration_ps = now;
  ChooseSteps({.process = 0, .marker = ""}, &timeline);
  EXPECT_EQ(timeline.step_source, StepSource::kWholeCapture);
  EXPECT_EQ(timeline.steps_unknown, "PyTorch's optimizer ran only once in the recorded time: capture longer");
}

TEST_F(TorchStepsTest, ShortCaptureWithoutSteps_SaysThatALongerOneMayShowThem) {
  const std::string hint = "; a longer capture may show steps";
  Pass();
  for (const bool ended : {false, true}) {
    timeline.duration_ps = now;
    timeline.exit_code = ended ? 0 : -1;
    timeline.steps.clear();
    ChooseSteps({.process = 0, .marker = ""}, &timeline);
    EXPECT_EQ(timeline.steps_unknown.ends_with(hint), !ended) << timeline.steps_unknown;
  }
  timeline.exit_code = -1;
  timeline.duration_ps = int64_t{60} * 1'000'000'000'000;
  timeline.steps.clear();
  ChooseSteps({.process = 0, .marker = ""}, &timeline);
  EXPECT_FALSE(timeline.steps_unknown.ends_with(hint)) << timeline.steps_unknown;
}

}  // namespace
}  // namespace tbprof
