// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/input_pipeline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/writer/torch_maker.h"
#include "writer/convert/input_wait.h"
#include "writer/outputs/xplane.h"
#include "writer/steps/torch_steps.h"

namespace tbprof {
namespace {

constexpr char kWorkers[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

class InputPipelineTest : public testing::Test, protected TorchMaker {
 protected:
  // All open calls return descriptor 3.
  void Call(const std::string& name, int64_t us, uint64_t descriptor = 3) {
    uint16_t type = 0;
    while (type < timeline.types.size() && timeline.types[type].name != name) ++type;
    if (type == timeline.types.size()) {
      timeline.types.push_back({name, EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes});
    }
    timeline.threads[on].events.push_back(
        {.start_ps = now, .duration_ps = us * kUs, .object = descriptor, .value = 3, .type = type});
    now += us * kUs;
  }
  void Steps() {
    const MarkedSteps found = FindTorchSteps(Done(), 0);
    timeline.steps = found.steps;
    timeline.step_source = StepSource::kMarked;
    timeline.step_source_text = found.source;
  }
  // The microseconds of a stage in a line.
  int64_t Us(const InputLine& line, InputStage stage) const {
    int64_t sum = 0;
    for (const InputEvent& event : line.events) {
      if (event.stage == stage) sum += event.end_ps - event.start_ps;
    }
    return sum / kUs;
  }
};

TEST_F(InputPipelineTest, NoLoader_IsNotMeasured) {
  Pass();
  Steps();
  EXPECT_NE(MeasureInputWait(timeline).state, InputWaitState::kMeasured);
  EXPECT_TRUE(InputLines(timeline, 0).empty());
}

TEST_F(InputPipelineTest, LoaderInSteps_HasItsShareOfTheSteps) {
  for (int i = 0; i < 10; ++i) {
    Range(kWorkers, RangeOrigin::kTorchUser, 300);
    Range("aten::mm", RangeOrigin::kTorchOperation, 650);
    Range("Optimizer.step#SGD.step", RangeOrigin::kTorchUser, 50);
  }
  Range(kWorkers, RangeOrigin::kTorchUser, 100'000);
  Steps();
  EXPECT_NEAR(MeasureInputWait(timeline).share, 0.3, 0.001) << "what is no step does not count";
}

TEST_F(InputPipelineTest, StepsLine_MarksTheWaitForInput) {
  for (int i = 0; i < 4; ++i) {
    Range(kWorkers, RangeOrigin::kTorchUser, [&] { Call("read", 300); });
    Range("aten::mm", RangeOrigin::kTorchOperation, 500);
    Call("write", 200);
    Range("Optimizer.step#SGD.step", RangeOrigin::kTorchUser, 50);
  }
  Steps();
  int64_t input = 0, running = 0;
  int64_t at = 0;
  for (const StepEvent& event : StepEvents(timeline)) {
    if (event.is_marker) {
      at = event.start_ps;
      continue;
    }
    EXPECT_GE(event.start_ps, at);
    at = event.end_ps;
    (event.is_input ? input : running) += (event.end_ps - event.start_ps) / kUs;
  }
  EXPECT_EQ(input, 4 * 300);
  EXPECT_EQ(running, 4 * 550) << "the wait for the file is neither";
}

TEST_F(InputPipelineTest, StepThatOnlyWaitsForInput_IsAStep) {
  for (int i = 0; i < 3; ++i) {
    timeline.steps.push_back({now, now + 1000 * kUs, i, "step", 0});
    Range(kWorkers, RangeOrigin::kTorchUser, 1000);
  }
  timeline.steps.push_back({now, now + 500, 3, "step", 0});
  Range(kWorkers, RangeOrigin::kTorchUser, 1000);
  Done();
  int markers = 0, running = 0;
  int64_t inner = 0;
  for (const StepEvent& event : StepEvents(timeline)) {
    markers += event.is_marker ? 1 : 0;
    running += !event.is_marker && !event.is_input ? 1 : 0;
    EXPECT_GT(event.end_ps, event.start_ps);
    EXPECT_TRUE(event.is_marker || event.start_ps >= inner);
    inner = event.is_marker ? event.start_ps : event.end_ps;
  }
  EXPECT_EQ(running, markers);
}

TEST_F(InputPipelineTest, LoaderInTheProgram_HasFetchAndRead) {
  for (int i = 0; i < 5; ++i) {
    Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser, [&] {
      Call("open64", 10);
      Call("read", 90);
      Call("poll", 5);
      Idle(300);
    });
    Call("read", 1000);
  }
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(Us(lines[0], InputStage::kFetch), 5 * 405);
  EXPECT_EQ(Us(lines[0], InputStage::kRead), 5 * 100);
}

TEST_F(InputPipelineTest, WorkersOfALoader_HaveReadAndPrepare) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int worker = 0; worker < 2; ++worker) {
      timeline.processes.emplace_back().forked = true;
      timeline.processes.back().parent = 0;
      const auto process = static_cast<uint32_t>(timeline.processes.size() - 1);
      on = Thread(process);
      timeline.threads[on].is_main = true;
      now = (epoch * 100'000 + worker * 7) * kUs;
      Call("read", 500, 9);  // imports
      for (int batch = 0; batch < 6; ++batch) {
        Call("poll", 1000);
        timeline.threads[on].events.back().value = 0;  // nothing yet
        Call("poll", 1000);
        // For one batch both reads are too short for a record.
        if (batch != 3) Call("read", 2, 5);
        if (batch != 3) Call("read", 2, 5);
        Op("randn", 30);
        Call("open64", 20);
        Call("read", 80);
        Call("poll", 40);
        timeline.threads[on].events.back().call_site = timeline.strings.Intern("the data set's own");
        Call("recv", 60, 12);
        Idle(200);
      }
      Call("poll", 5000);
      Call("read", 1, 5);
      Call("poll", 5000);
    }
  }
  on = 0;
  now = 0;
  for (int i = 0; i < 24; ++i) Range(kWorkers, RangeOrigin::kTorchUser, 20);
  now = 300'000 * kUs;
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 3u) << "workers of the second epoch follow those of the first";
  EXPECT_EQ(lines[1].name, "loader 00 input (summary)");
  EXPECT_EQ(Us(lines[0], InputStage::kWait), 24 * 20);
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(Us(lines[static_cast<size_t>(i)], InputStage::kPrepare),
              2 * 6 * (30 + 20 + 80 + 40 + 60 + 200) + 2 * 5 * 2);
    EXPECT_EQ(Us(lines[static_cast<size_t>(i)], InputStage::kRead), 2 * 6 * (20 + 80))
        << "neither the pipe of the numbers nor a socket is a file";
  }
}

TEST_F(InputPipelineTest, CopiesToTheDevice_AreAStage) {
  for (int i = 0; i < 4; ++i) {
    Batch();
    Launch("MemcpyHToD");
    GpuEvent& copy = timeline.gpu_streams[0].events.back();
    copy.kind = GpuEventKind::kCopy;
    copy.copy_kind = i < 3 ? 1 : 2;
    Launch("gemm");
  }
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(Us(lines[0], InputStage::kCopy), 3 * 3);
}

TEST_F(InputPipelineTest, ThreadThatPinsMemory_HasAStage) {
  const uint32_t pinning = Thread();
  for (int i = 0; i < 4; ++i) {
    Batch();
    on = pinning;
    Range("aten::pin_memory", RangeOrigin::kTorchOperation, [&] {
      Op("is_pinned", 2);
      Range("aten::_pin_memory", RangeOrigin::kTorchOperation, 30);
    });
    on = 0;
    Op("pin_memory", 7);  // by the program itself
  }
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].name, "pin memory 00 input (summary)");
  EXPECT_EQ(lines[1].events.size(), 4u);
  EXPECT_EQ(Us(lines[1], InputStage::kPin), 4 * 32);
  EXPECT_EQ(Us(lines[0], InputStage::kPin), 0);
}

TEST_F(InputPipelineTest, LoopOverADataset_WaitsForItsBatch) {
  for (int i = 0; i < 10; ++i) {
    timeline.steps.push_back({now, now + 1000 * kUs, i, "step", 0});
    Range("IteratorGetNext", RangeOrigin::kTensorFlow, 400);
    Range("__inference_update_185", RangeOrigin::kTensorFlow, 600);
  }
  Done();
  EXPECT_EQ(LoaderOf(timeline), "tf.data");
  EXPECT_NEAR(MeasureInputWait(timeline).share, 0.4, 0.001);
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(Us(lines[0], InputStage::kWait), 10 * 400);
}

// Keras waits for its batches inside its function: a batch that the program itself took does not show that wait.
TEST_F(InputPipelineTest, OneBatchOfADataset_IsNotTheInput) {
  Range("IteratorGetNext", RangeOrigin::kTensorFlow, 400);
  for (int i = 0; i < 10; ++i) {
    timeline.steps.push_back({now, now + 1000 * kUs, i, "step", 0});
    Range("__inference_multi_step_on_iterator_839", RangeOrigin::kTensorFlow, 1000);
  }
  Done();
  EXPECT_EQ(MeasureInputWait(timeline).state, InputWaitState::kUnknown);
}

TEST_F(InputPipelineTest, ManyReadsOfABatch_AreOneOfTheirLength) {
  Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser, [&] {
    for (int i = 0; i < 300'000; ++i) {
      Call("pread64", 1 + i % 100);
      Idle(1);
    }
  });
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  EXPECT_EQ(lines[0].events.size(), 2u);
  EXPECT_EQ(Us(lines[0], InputStage::kRead), 300'000 / 100 * (100 * 101 / 2));
  EXPECT_EQ(Us(lines[0], InputStage::kFetch), 300'000 / 100 * (100 * 101 / 2) + 300'000);
}

// The times on the page do not depend on the number of drawn batches.
TEST_F(InputPipelineTest, TooManyBatches_AreSummedInGroups) {
  for (int i = 0; i < 600'000; ++i) {
    Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser, [&] {
      Call("pread64", i < 5'000 ? 1 : 3);
      Idle(2);
    });
    Idle(1);
  }
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  EXPECT_LE(lines[0].events.size(), 250'000u);
  EXPECT_GT(lines[0].batches_each, 1u);
  EXPECT_EQ(Us(lines[0], InputStage::kRead), 5'000 + 595'000 * 3);
  EXPECT_EQ(Us(lines[0], InputStage::kFetch), 5'000 + 595'000 * 3 + 600'000 * 2);
  int64_t end = 0;
  for (const InputEvent& event : lines[0].events) {
    if (event.stage == InputStage::kRead) {
      EXPECT_LE(event.end_ps, end) << "within its batches";
      continue;
    }
    ASSERT_GE(event.start_ps, end) << "apart";
    end = event.end_ps;
  }
}

TEST_F(InputPipelineTest, PipesOfWorkers_AreNoFiles) {
  Call("open64", 10, 0);  // an earlier file; the pipe has the same number now
  for (int i = 0; i < 4; ++i) Range(kWorkers, RangeOrigin::kTorchUser, [&] { Call("read", 90); });
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(Us(lines[0], InputStage::kRead), 0);
  EXPECT_EQ(Us(lines[0], InputStage::kWait), 4 * 90);
}

TEST_F(InputPipelineTest, BatchesOfAFunction_AreAStage) {
  const uint32_t taker = Thread();
  timeline.types.push_back({"IteratorGetNext", EventFamily::kOther});
  Event event;
  event.type = static_cast<uint16_t>(timeline.types.size() - 1);
  event.call_site =
      timeline.strings.Intern("tensorflow::data::IteratorResource::GetNext(void*) (libtensorflow_cc.so.2)");
  event.duration_ps = 70 * kUs;
  timeline.threads[taker].events.push_back(event);
  now = 100 * kUs;
  Done();
  const std::vector<InputLine> lines = InputLines(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(Us(lines[0], InputStage::kWait), 70);
}

}  // namespace
}  // namespace tbprof
