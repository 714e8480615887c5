// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/inferred_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "writer/base/median.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr int64_t kUs = 1'000'000;

// A process with a main thread that launches, and a device.
class InferredStepsTest : public testing::Test {
 protected:
  InferredStepsTest() {
    timeline_.processes.emplace_back().is_command = true;
    timeline_.threads.emplace_back().is_main = true;
    timeline_.threads[0].line_id = 1;
    timeline_.gpu_streams.emplace_back();
    timeline_.types = {{"cudaLaunchKernel", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation},
                       {"read", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes}};
  }

  void Launch(const std::string& kernel, int64_t length_us = 40) {
    const auto correlation = static_cast<int64_t>(++launches_);
    timeline_.threads[0].events.push_back({.start_ps = now_, .duration_ps = 5 * kUs, .value = correlation});
    GpuEvent work;
    work.start_ps = now_ + 8 * kUs;
    work.duration_ps = length_us * kUs;
    work.correlation = launches_;
    work.name = timeline_.strings.Intern(kernel);
    timeline_.gpu_streams[0].events.push_back(work);
    now_ += 12 * kUs;
  }
  void Read(int64_t length_us, StringId site) {
    timeline_.threads[0].events.push_back(
        {.start_ps = now_, .duration_ps = length_us * kUs, .object = 3, .value = 100, .call_site = site, .type = 1});
    now_ += length_us * kUs;
  }
  // The launches of a training loop: input, forward and backward layers, the optimizer.
  void Train(int steps, int layers) {
    for (int step = 0; step < steps; ++step) {
      begins_.push_back(now_);
      Launch("copy of the batch");
      for (int layer = 0; layer < layers; ++layer) Launch("forward");
      Launch("loss");
      for (int layer = 0; layer < layers; ++layer) Launch("backward");
      Launch("multi_tensor_apply_kernel adam");
      now_ += 300 * kUs;
    }
    timeline_.duration_ps = now_;
  }

  InferredSteps Infer() { return InferSteps(timeline_, 0); }

  Timeline timeline_;
  int64_t now_ = 0;
  uint64_t launches_ = 0;
  std::vector<int64_t> begins_;
};

TEST_F(InferredStepsTest, EmptyTimeline_HasNoSteps) {
  EXPECT_TRUE(Infer().steps.empty());
  EXPECT_TRUE(InferSteps(Timeline(), 0).steps.empty());
  EXPECT_TRUE(InferSteps(timeline_, 5).steps.empty());
}

TEST_F(InferredStepsTest, Training_StepsBeginWithTheLoop) {
  Train(60, 6);
  const InferredSteps found = Infer();
  ASSERT_GE(found.steps.size(), 58u);
  EXPECT_GT(found.confidence, 0.7);
  size_t right = 0;
  for (const Step& step : found.steps) {
    EXPECT_TRUE(step.is_regular) << step.name;
    EXPECT_EQ(step.thread, 0u);
    right += std::binary_search(begins_.begin(), begins_.end(), step.start_ps) ? 1 : 0;
  }
  EXPECT_GE(right + 2, found.steps.size()) << "each begins where the loop does";
}

TEST_F(InferredStepsTest, LostRecords_LowerTheConfidence) {
  Train(60, 6);
  const double sure = Infer().confidence;
  timeline_.drops.push_back({"no free chunk", 100});
  const InferredSteps found = Infer();
  if (!found.steps.empty()) {
    EXPECT_LT(found.confidence, 0.7);
  }
  EXPECT_LT(found.confidence, sure);
}

TEST_F(InferredStepsTest, LoopOfMicroseconds_IsNoStep) {
  for (int i = 0; i < 1000; ++i) Launch("the same");
  timeline_.duration_ps = now_;
  EXPECT_TRUE(Infer().steps.empty());
}

TEST_F(InferredStepsTest, LaunchesInRandomOrder_HaveNoSteps) {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    Launch("kernel " + std::to_string(random() % 50));
    now_ += static_cast<int64_t>(random() % 500) * kUs;
  }
  timeline_.duration_ps = now_;
  EXPECT_TRUE(Infer().steps.empty());
}

TEST_F(InferredStepsTest, NoDevice_CallsGiveStepsOfLowConfidence) {
  timeline_.gpu_streams.clear();
  for (int step = 0; step < 80; ++step) {
    Read(200, 1);
    for (int i = 0; i < 6; ++i) {
      Read(30, 2);
      now_ += 100 * kUs;
    }
    Read(50, 3);
    now_ += 2000 * kUs;
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  EXPECT_LE(found.confidence, 0.65);
  for (const Step& step : found.steps) EXPECT_GE(step.end_ps - step.start_ps, 1000 * kUs);
}

TEST_F(InferredStepsTest, NoDevice_OperationsOfPytorchGiveSteps) {
  timeline_.gpu_streams.clear();
  const auto operation = [&](uint16_t type) {
    timeline_.threads[0].events.push_back({.start_ps = now_, .duration_ps = 60 * kUs, .type = type});
    timeline_.threads[0].events.push_back({.start_ps = now_ + kUs, .duration_ps = 20 * kUs, .type = 2});
    now_ += 65 * kUs;
  };
  for (int i = 0; i < 6; ++i) {
    timeline_.types.push_back({"aten::operation" + std::to_string(i), EventFamily::kAnnotation, ObjectKind::kNone,
                               ValueKind::kNone, RangeOrigin::kTorchOperation});
  }
  // The program makes a model, and uses it much later.
  for (int i = 0; i < 20; ++i) operation(static_cast<uint16_t>(2 + i % 4));
  now_ += 2'000'000 * kUs;
  for (int step = 0; step < 60; ++step) {
    begins_.push_back(now_);
    Read(20 + step % 7, 1);
    operation(3);
    for (int layer = 0; layer < 5; ++layer) operation(4);
    operation(5);
    for (int layer = 0; layer < 5; ++layer) operation(6);
    operation(7);
    now_ += 300 * kUs;
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  ASSERT_GE(found.steps.size(), 58u);
  EXPECT_LE(found.confidence, 0.8);
  EXPECT_EQ(found.source, "repeated operations");
  for (size_t i = 1; i + 1 < found.steps.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(found.steps[i].end_ps - found.steps[i].start_ps),
                static_cast<double>(begins_[i + 1] - begins_[i]), 20.0 * kUs);
  }
}

TEST_F(InferredStepsTest, OptimizersOperations_NextStepBeginsBehindThem) {
  constexpr int kStalled = 30;
  timeline_.gpu_streams.clear();
  const char* names[] = {"aten::linear", "aten::relu", "autograd::node", "aten::mul_", "aten::addcdiv_"};
  for (const char* name : names) {
    timeline_.types.push_back(
        {name, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTorchOperation});
  }
  const auto operation = [&](int index) {
    timeline_.threads[0].events.push_back(
        {.start_ps = now_, .duration_ps = 60 * kUs, .type = static_cast<uint16_t>(2 + index)});
    now_ += 65 * kUs;
  };
  for (int step = 0; step < 60; ++step) {
    begins_.push_back(now_);
    Read(step == kStalled ? 15'000 : 500 + 37 * (step % 9), 1);  // the batch
    for (int layer = 0; layer < 3; ++layer) {
      operation(0);
      operation(1);
    }
    now_ += 900 * kUs;  // a copy of the loss, longer than the wait
    for (int layer = 0; layer < 3; ++layer) operation(2);
    for (int i = 0; i < 6; ++i) {
      operation(3);
      operation(4);
    }
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  ASSERT_GE(found.steps.size(), 57u);
  EXPECT_GT(found.confidence, 0.65) << "an optimizer tells where the step is over";
  for (size_t i = 1; i < found.steps.size(); ++i) {
    const int64_t start = found.steps[i].start_ps;
    const bool right = std::ranges::any_of(begins_, [&](int64_t begin) { return std::abs(begin - start) <= 6 * kUs; });
    EXPECT_TRUE(right) << i;
    EXPECT_LE(found.steps[i - 1].end_ps, start);
    // The step that waited is irregular, not the step before it.
    EXPECT_EQ(found.steps[i].is_regular, std::abs(begins_[kStalled] - start) > 6 * kUs) << i << found.steps[i].name;
  }
}

// An optimizer that works parameter by parameter runs once after each backward pass: a parameter is no step.
TEST_F(InferredStepsTest, OptimizerByParameter_IsOneStepABackwardPass) {
  constexpr int kParameters = 10;
  timeline_.gpu_streams.clear();
  const char* names[] = {"aten::linear", "aten::add_", "aten::item", "aten::lerp_",
                         "aten::mul_",   "aten::sqrt", "aten::div",  "aten::addcdiv_"};
  for (const char* name : names) {
    timeline_.types.push_back(
        {name, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTorchOperation});
  }
  timeline_.types.push_back({"autograd::engine::evaluate_function: AddmmBackward0", EventFamily::kAnnotation,
                             ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTorchBackward});
  const auto operation = [&](int index, int64_t length_us) {
    timeline_.threads[0].events.push_back(
        {.start_ps = now_, .duration_ps = length_us * kUs, .type = static_cast<uint16_t>(2 + index)});
    now_ += (length_us + 2) * kUs;
  };
  for (int step = 0; step < 100; ++step) {
    begins_.push_back(now_);
    for (int layer = 0; layer < kParameters; ++layer) operation(0, 60 + step % 5);
    for (int layer = 0; layer < kParameters; ++layer) operation(8, 100 + step % 3);
    for (int i = 0; i < kParameters; ++i) {
      for (int index = 1; index < 8; ++index) operation(index, 10);
    }
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(found.steps.size()), 100, 2);
  EXPECT_GT(found.confidence, 0.7);
}

TEST_F(InferredStepsTest, OperationsWithoutOptimizer_LowConfidence) {
  timeline_.gpu_streams.clear();
  for (const char* name : {"aten::linear", "aten::relu", "aten::softmax"}) {
    timeline_.types.push_back(
        {name, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTorchOperation});
  }
  for (int step = 0; step < 60; ++step) {
    for (int i = 0; i < 7; ++i) {
      timeline_.threads[0].events.push_back(
          {.start_ps = now_, .duration_ps = 60 * kUs, .type = static_cast<uint16_t>(i == 6 ? 4 : 2 + i % 2)});
      now_ += 70 * kUs;
    }
    now_ += 400 * kUs;
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  EXPECT_GE(found.steps.size(), 57u);
  EXPECT_LE(found.confidence, 0.65);
}

// Operations of TensorFlow on the main thread, by name.
class InferredStepsOfFunctionsTest : public InferredStepsTest {
 protected:
  InferredStepsOfFunctionsTest() { timeline_.gpu_streams.clear(); }

  void Operation(const std::string& name, int64_t length_us) {
    const auto [at, is_new] = types_.emplace(name, timeline_.types.size());
    if (is_new) {
      timeline_.types.push_back(
          {name, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone, RangeOrigin::kTensorFlow});
    }
    timeline_.threads[0].events.push_back(
        {.start_ps = now_, .duration_ps = length_us * kUs, .type = static_cast<uint16_t>(at->second)});
    now_ += (length_us + 5) * kUs;
  }
  void StartAnew() {
    timeline_.threads[0].events.clear();
    begins_.clear();
    now_ = 0;
  }
  // Calls a compiled function like Keras; lengths vary.
  void Batches(int batches, const std::string& function, int64_t length_us) {
    for (int i = 0; i < batches; ++i) {
      if (function == "__inference_multi_step_on_iterator_839") begins_.push_back(now_);
      now_ += (200 + i % 5) * kUs;
      Operation(function, length_us + 13 * (i % 7));
      Operation("OptionalHasValue", 20);
      Operation("OptionalGetValue", 20);
    }
  }
  // An optimizer of six variables.
  void Update() {
    for (int i = 0; i < 6; ++i) {
      Operation("Mul", 30);
      Operation("AssignSubVariableOp", 30);
    }
  }
  void GoThroughData() {
    for (const char* name : {"TensorDataset", "RangeDataset", "RepeatDataset", "MapDataset", "PrefetchDataset",
                             "FlatMapDataset", "ZipDataset", "OptionsDataset", "AnonymousIteratorV3", "MakeIterator"}) {
      Operation(name, 400);
    }
  }
  std::vector<int64_t> Regular(const InferredSteps& found) {
    std::vector<int64_t> lengths;
    for (const Step& step : found.steps) {
      if (step.is_regular) lengths.push_back(step.end_ps - step.start_ps);
    }
    return lengths;
  }
  void ExpectBegins(const InferredSteps& found, int64_t within_us) {
    for (const int64_t begin : begins_) {
      EXPECT_TRUE(std::ranges::any_of(found.steps, [&](const Step& step) {
        return std::abs(step.start_ps - begin) <= within_us * kUs;
      })) << begin;
    }
  }

  std::map<std::string, size_t> types_;
};

// The operations at the start of each epoch also repeat, and are more kinds of operations than a step has.
TEST_F(InferredStepsOfFunctionsTest, Epochs_AreNoSteps) {
  for (const bool validation : {false, true}) {
    for (const int batches : {10, 100}) {
      StartAnew();
      for (int epoch = 0; epoch < 12; ++epoch) {
        GoThroughData();
        Batches(batches, "__inference_multi_step_on_iterator_839", 1400);
        if (validation) {
          GoThroughData();
          Batches(batches / 5, "__inference_multi_step_on_iterator_1766", 800);
        }
        Operation("ReadVariableOp", 10);
      }
      timeline_.duration_ps = now_;
      const InferredSteps found = Infer();
      SCOPED_TRACE(testing::Message() << batches << " batches, validation " << validation);
      ASSERT_FALSE(found.steps.empty());
      EXPECT_NEAR(static_cast<double>(Regular(found).size()), 12.0 * batches, 13);
      EXPECT_NEAR(static_cast<double>(Median(Regular(found))), 1700.0 * kUs, 60.0 * kUs);
      EXPECT_GE(found.confidence, 0.5);
      EXPECT_LE(found.confidence, 0.7) << "where a step of Keras begins is not recorded";
      ExpectBegins(found, 60);
      for (const Step& step : found.steps) {
        EXPECT_LT(step.start_ps, step.end_ps);
        EXPECT_TRUE(step.end_ps - step.start_ps <= 2500 * kUs || !step.is_regular);
      }
    }
  }
}

TEST_F(InferredStepsOfFunctionsTest, LoopWithBatches_StepsBeginWithTheBatch) {
  for (const bool eager : {false, true}) {
    StartAnew();
    Operation("MakeIterator", 3000);
    for (int step = 0; step < 80; ++step) {
      begins_.push_back(now_);
      Operation("IteratorGetNext", 150 + 20 * (step % 9));
      now_ += 300 * kUs;
      Operation(eager ? "MatMul" : "__inference_update_185", 1300);
      if (eager) Update();
      now_ += 100 * kUs;
    }
    timeline_.duration_ps = now_;
    const InferredSteps found = Infer();
    SCOPED_TRACE(eager);
    EXPECT_NEAR(static_cast<double>(Regular(found).size()), 80, 2);
    EXPECT_GT(found.confidence, 0.7);
    ExpectBegins(found, 1);
  }
}

// Each step has a few executions, followed by the optimizer that makes them one step.
TEST_F(InferredStepsOfFunctionsTest, AccumulatedParts_AreOneStep) {
  Operation("MakeIterator", 3000);
  for (int step = 0; step < 40; ++step) {
    begins_.push_back(now_);
    for (int part = 0; part < 4; ++part) {
      Operation("IteratorGetNext", 60);
      Operation("__inference_gradients_154", 1300);
      for (int i = 0; i < 6; ++i) Operation("AddV2", 30);
    }
    Update();
    now_ += 100 * kUs;
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(Regular(found).size()), 40, 2);
  EXPECT_GT(found.confidence, 0.7) << "the optimizer tells how many they are";
  EXPECT_TRUE(found.loops.empty());
  ExpectBegins(found, 1);
}

// The same with an optimizer that is also a function: it looks like any function that is called every few steps.
TEST_F(InferredStepsOfFunctionsTest, AmbiguousParts_LowConfidence) {
  const auto expect_doubt = [&] {
    timeline_.duration_ps = now_;
    const InferredSteps found = Infer();
    ASSERT_FALSE(found.steps.empty());
    EXPECT_LE(found.confidence, 0.65);
    EXPECT_FALSE(found.loops.empty());
  };
  for (const int64_t gap_us : {0, 30, 200}) {
    for (const int parts : {4, 8, 16}) {
      StartAnew();
      for (int step = 0; step < 60; ++step) {
        for (int part = 0; part < parts; ++part) {
          Operation("IteratorGetNext", 80);
          Operation("__inference_accumulate_1", 1300 + 7 * (part % 5));
          now_ += gap_us * kUs;
        }
        Operation("__inference_apply_2", 40);
        now_ += gap_us * kUs;
      }
      SCOPED_TRACE(testing::Message() << parts << " parts, " << gap_us << " us apart");
      expect_doubt();
    }
  }
  for (const int every : {2, 4, 8}) {
    StartAnew();
    for (int step = 0; step < 400; ++step) {
      Operation("IteratorGetNext", 80 + step % 7);
      Operation("__inference_update_1", 1300 + step % 5);
      now_ += 30 * kUs;
      if (step % every != every - 1) continue;
      for (const char* name : {"DivNoNan", "ReadVariableOp", "AssignVariableOp", "AssignVariableOp"})
        Operation(name, 20);
      now_ += 500 * kUs;
    }
    SCOPED_TRACE(testing::Message() << "logs every " << every);
    expect_doubt();
  }
}

// Each step calls a cell or a block many times, before an optimizer that is recognised by its name.
TEST_F(InferredStepsOfFunctionsTest, FunctionCalledOftenInAStep_IsAPart) {
  for (const int calls : {12, 20, 40}) {
    StartAnew();
    for (int step = 0; step < 60; ++step) {
      begins_.push_back(now_);
      Operation("StridedSlice", 20);
      for (int i = 0; i < calls; ++i) Operation("__forward_cell_12", 300 + i % 3);
      Operation("Mean", 20);
      for (int i = 0; i < calls; ++i) Operation("__backward_cell_33", 600 + i % 3);
      for (int i = 0; i < 6; ++i) Operation("ResourceApplyAdam", 60);
      now_ += (100 + step % 7) * kUs;
    }
    timeline_.duration_ps = now_;
    const InferredSteps found = Infer();
    SCOPED_TRACE(calls);
    EXPECT_NEAR(static_cast<double>(Regular(found).size()), 60, 2);
    ExpectBegins(found, 1);
  }
}

TEST_F(InferredStepsOfFunctionsTest, Evaluations_AreNoSteps) {
  for (const int every : {10, 20}) {
    for (const int64_t length_us : {8000, 16000}) {
      StartAnew();
      for (int step = 0; step < 300; ++step) {
        for (int layer = 0; layer < 4; ++layer) {
          Operation("MatMul", 200 + step % 5);
          Operation("Relu", 50);
        }
        Operation("SparseSoftmax", 50);
        for (int layer = 0; layer < 4; ++layer) {
          Operation("ReluGrad", 50);
          Operation("MatMul", 400 + step % 3);
        }
        for (int i = 0; i < 8; ++i) Operation("ResourceApplyAdam", 50);
        now_ += (200 + step % 11) * kUs;
        if (step % every == every - 1) Operation("__inference_evaluate_12", length_us);
      }
      timeline_.duration_ps = now_;
      const InferredSteps found = Infer();
      SCOPED_TRACE(testing::Message() << length_us << " us every " << every);
      EXPECT_GT(Regular(found).size(), 260u);
      EXPECT_NEAR(static_cast<double>(Median(Regular(found))), 3592.0 * kUs, 20.0 * kUs);
    }
  }
}

// The evaluations are longer than the training's steps, and also repeat.
TEST_F(InferredStepsOfFunctionsTest, EvaluationsBetweenEpochs_AreNoSteps) {
  for (int epoch = 0; epoch < 12; ++epoch) {
    Operation("MakeIterator", 600);
    for (int step = 0; step < 50; ++step) {
      begins_.push_back(now_);
      Operation("IteratorGetNext", 40 + step * 7 % 30);
      now_ += (20 + step * 3 % 11) * kUs;
      Operation("__inference_update_195", step == 0 && epoch == 0 ? 38'000 : 250 + step * 5 % 40);
      now_ += (140 + step * 13 % 50) * kUs;
    }
    Operation("MakeIterator", 600);
    for (int batch = 0; batch < 40; ++batch) {
      Operation("IteratorGetNext", 40 + batch * 7 % 30);
      Operation("__inference_evaluate_330", 150 + batch * 5 % 20);
      for (const char* name : {"Sum", "AssignAddVariableOp", "Cast", "AssignAddVariableOp"}) Operation(name, 30);
      now_ += 800 * kUs;
    }
    for (int i = 0; i < 4; ++i) Operation("AssignVariableOp", 20);
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(Regular(found).size()), 600, 15);
  EXPECT_NEAR(static_cast<double>(Median(Regular(found))), 510.0 * kUs, 40.0 * kUs);
}

// Moving averages are updated by the same operations as in optimizers.
TEST_F(InferredStepsOfFunctionsTest, BatchNormalisation_IsNoOptimizer) {
  constexpr int kLayers = 12;
  for (int step = 0; step < 60; ++step) {
    begins_.push_back(now_);
    Operation("IteratorGetNext", 80);
    for (int layer = 0; layer < kLayers; ++layer) {
      Operation("Conv2D", 300);
      Operation("ReadVariableOp", 10);
      Operation("FusedBatchNormV3", 100);
      for (int i = 0; i < 2; ++i) {
        for (const char* name : {"Sub", "Mul", "AssignSubVariableOp"}) Operation(name, 10);
      }
      Operation("Relu", 30);
    }
    Operation("SparseSoftmax", 50);
    for (int layer = 0; layer < kLayers; ++layer) {
      Operation("ReluGrad", 30);
      Operation("FusedBatchNormGradV3", 150);
      Operation("Conv2DBackpropInput", 300);
      Operation("Conv2DBackpropFilter", 300 + step % 5);
    }
    for (int i = 0; i < 3 * kLayers; ++i) Operation("ResourceApplyAdam", 30);
    now_ += 100 * kUs;
  }
  timeline_.duration_ps = now_;
  const InferredSteps found = Infer();
  EXPECT_NEAR(static_cast<double>(Regular(found).size()), 60, 2);
  ExpectBegins(found, 1);
}

// A longer step with the same operations is one step.
TEST_F(InferredStepsOfFunctionsTest, SlowStep_IsOneStep) {
  constexpr int kSlow = 30;
  for (const bool batch : {false, true}) {
    StartAnew();
    for (int step = 0; step < 60; ++step) {
      begins_.push_back(now_);
      Operation("IteratorGetNext", step == kSlow && batch ? 9000 : 100);
      Operation("__inference_update_1", step == kSlow && !batch ? 9000 : 1300 + step % 5);
      now_ += 100 * kUs;
    }
    timeline_.duration_ps = now_;
    const InferredSteps found = Infer();
    SCOPED_TRACE(batch);
    ASSERT_EQ(found.steps.size(), 60u);
    for (size_t i = 0; i < found.steps.size(); ++i) {
      EXPECT_EQ(found.steps[i].start_ps, begins_[i]) << i;
      EXPECT_EQ(found.steps[i].is_regular, i != kSlow) << i;
    }
  }
}

// A function at random intervals gives no confident steps.
TEST_F(InferredStepsOfFunctionsTest, FunctionAtRandom_LowConfidence) {
  uint64_t state = 7;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>((state >> 33) % below);
  };
  for (int i = 0; i < 400; ++i) {
    const int64_t which = random(6);
    Operation(which == 0 ? "__inference_helper_12" : StrCat("Operation", which), 50 + random(400));
    now_ += random(3000) * kUs;
  }
  timeline_.duration_ps = now_;
  EXPECT_LT(Infer().confidence, 0.7);
}

// Loops down to 50 us are found; shorter loops are not.
TEST_F(InferredStepsTest, ShortLoops_AreFoundDownTo50Us) {
  for (const int64_t gap_us : {0, 30, 100, 200}) {
    timeline_.threads[0].events.clear();
    timeline_.gpu_streams[0].events.clear();
    now_ = 0;
    for (int step = 0; step < 2000; ++step) {
      for (const char* kernel : {"copy", "forward", "loss", "backward", "adam"}) Launch(kernel, 6);
      now_ += gap_us * kUs;
    }
    timeline_.duration_ps = now_;
    const InferredSteps found = Infer();
    EXPECT_NEAR(static_cast<double>(found.steps.size()), 2000, 20) << gap_us;
  }
  timeline_.threads[0].events.clear();
  timeline_.gpu_streams[0].events.clear();
  now_ = 0;
  for (int step = 0; step < 2000; ++step) {
    for (const char* kernel : {"forward", "loss", "adam"}) Launch(kernel, 6);
  }
  timeline_.duration_ps = now_;
  EXPECT_TRUE(Infer().steps.empty()) << "of 36 us";
}

}  // namespace
}  // namespace tbprof
