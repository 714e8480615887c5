// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/torch_operations.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/unit/writer/torch_maker.h"
#include "writer/convert/input_pipeline.h"
#include "writer/convert/torch_estimates.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

class TorchOperationsTest : public testing::Test, protected TorchMaker {
 protected:
  void Name() { counts_ = NameOperations(&Done()); }
  // The events that have an operation, in order, as `name of the event = operation`.
  std::vector<std::string> Named(uint32_t thread = 0) const {
    std::vector<std::string> named;
    for (const Event& event : timeline.threads[thread].events) {
      if (event.detail == 0) continue;
      named.push_back(timeline.types[event.type].name + " = " + timeline.strings.Get(event.detail));
    }
    return named;
  }
  std::vector<std::string> OnDevice() const {
    std::vector<std::string> named;
    if (timeline.gpu_streams.empty()) return named;
    for (const GpuEvent& event : timeline.gpu_streams[0].events) named.push_back(timeline.strings.Get(event.operation));
    return named;
  }
  void Operation(const std::string& name, const std::function<void()>& inside) {
    Range(name, RangeOrigin::kTorchOperation, inside);
  }
  void Scope(const std::string& name, const std::function<void()>& inside) {
    Range(name, RangeOrigin::kTorchUser, inside);
  }
  void Nvtx(const std::string& name, const std::function<void()>& inside) {
    Range(name, RangeOrigin::kProgram, inside);
  }

  NamedOperations counts_;
};

using Texts = std::vector<std::string>;

TEST_F(TorchOperationsTest, NestedOperations_OutermostHasARow) {
  Operation("aten::linear", [&] {
    Op("t");
    Operation("aten::addmm", [&] { Op("expand"); });
  });
  Forward("relu", 5);
  Name();
  EXPECT_EQ(Named(), (Texts{"aten::linear = aten/linear:linear", "aten::relu = forward/aten/relu:relu"}));
  EXPECT_EQ(counts_.named, 2u);
  EXPECT_EQ(counts_.nested, 3u);
}

TEST_F(TorchOperationsTest, NodeOfTheBackwardPass_IsOneRow) {
  Backward("AddmmBackward0");
  Backward("torch::autograd::AccumulateGrad");
  Range("MulBackward0", RangeOrigin::kTorchBackward, 10);
  Name();
  EXPECT_EQ(Named(),
            (Texts{"autograd::engine::evaluate_function: AddmmBackward0 = backward/AddmmBackward0:AddmmBackward0",
                   "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad = "
                   "backward/AccumulateGrad:AccumulateGrad",
                   "MulBackward0 = backward/MulBackward0:MulBackward0"}));
}

TEST_F(TorchOperationsTest, RangesOfTheProgram_AreScopes) {
  Nvtx("iteration 7", [&] {
    Scope("## encoder: layer 3 ##", [&] { Nvtx("attention/query", [&] { Forward("mm", 1); }); });
    Batch();
    Optimizer("AdamW");
    Scope("Optimizer.zero_grad#AdamW.zero_grad", [&] { Op("zero_"); });
    Scope("forward", [&] { Forward("mm", 2); });
    Nvtx("aten::mul, seq = 12, op_id = 3", [&] { Op("mul"); });
  });
  Name();
  EXPECT_EQ(Named(), (Texts{"aten::mm = forward/encoder__layer_3/attention/query/aten/mm:mm",
                            "aten::_foreach_add_ = Optimizer.step/AdamW/aten/_foreach_add_:_foreach_add_",
                            "aten::zero_ = Optimizer.zero_grad/AdamW/aten/zero_:zero_", "aten::mm = forward/aten/mm:mm",
                            "aten::mul = aten__mul/aten/mul:mul"}));
}

TEST_F(TorchOperationsTest, Kernels_BelongToTheInnermostOperation) {
  Scope("encoder", [&] {
    Operation("aten::linear", [&] {
      Operation("aten::addmm", [&] { Launch("gemm"); });
      Launch("bias");
    });
    Launch("of the program");
  });
  Range("autograd::engine::evaluate_function: MmBackward0", RangeOrigin::kTorchBackward, [&] {
    Range("MmBackward0", RangeOrigin::kTorchBackward, [&] { Operation("aten::mm", [&] { Launch("gemm"); }); });
  });
  Launch("alone");
  Name();
  EXPECT_EQ(OnDevice(), (Texts{"encoder/aten/addmm:addmm", "encoder/aten/linear:linear", "encoder:encoder",
                               "backward/MmBackward0:MmBackward0", ""}));
}

TEST_F(TorchOperationsTest, KernelsOfAGraph_BelongToTheirCapture) {
  Scope("encoder", [&] {
    Operation("aten::linear", [&] {
      now += kUs;
      Node(11);
    });
    Node(12);
  });
  Node(13);
  // A copy is recorded as a new node and as a copy, in either order.
  Nvtx("prepare", [&] {
    Node(21), Node(21, 11);
    Node(22, 12), Node(22);
    Node(23, 13);
    Node(31, 21);
    Node(24, 24);
    Node(24);
    Node(25, 99);
  });
  Nvtx("replay", [&] {
    for (const uint64_t node : {21, 22, 31, 11, 13, 23, 24, 25, 26, 0}) LaunchGraph(node);
    Launch("eager");
  });
  Name();
  EXPECT_EQ(OnDevice(), (Texts{"encoder/aten/linear:linear", "encoder:encoder", "encoder/aten/linear:linear",
                               "encoder/aten/linear:linear", "replay:replay", "replay:replay", "replay:replay",
                               "replay:replay", "replay:replay", "replay:replay", "replay:replay"}));
}

TEST_F(TorchOperationsTest, NodesOfAnotherProcess_AreSeparate) {
  timeline.processes.emplace_back();
  Nvtx("ours", [&] { Node(11); });
  on = Thread(1);
  Nvtx("theirs", [&] { Node(11); });
  on = 0;
  Nvtx("replay", [&] { LaunchGraph(11); });
  Name();
  EXPECT_EQ(OnDevice(), (Texts{"ours:ours"}));
  timeline.gpu_streams[0].process = 1;
  Name();
  EXPECT_EQ(OnDevice(), (Texts{"theirs:theirs"}));
}

// A corrupt file may have cycles of copies.
TEST_F(TorchOperationsTest, CyclicCopiesOfNodes_HaveNoCapture) {
  Nvtx("capture", [&] {
    Node(1, 2), Node(2, 3), Node(3, 1);
    Node(100);
    for (uint64_t node = 101; node < 200; ++node) Node(node, node - 1);
  });
  timeline.graph_nodes.push_back({77, 5, 7, 0});
  Nvtx("replay", [&] {
    for (const uint64_t node : {1, 199, 101, 7}) LaunchGraph(node);
  });
  Name();
  EXPECT_EQ(OnDevice(), (Texts{"replay:replay", "replay:replay", "capture:capture", "replay:replay"}));
}

// The loader's time is a stage of the input, which has its own row.
TEST_F(TorchOperationsTest, OperationsOfTheLoader_HaveNoRows) {
  Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser,
        [&] { Operation("aten::to", [&] { Operation("aten::copy_", [&] { Launch("MemcpyHToD"); }); }); });
  Name();
  EXPECT_TRUE(Named().empty());
  EXPECT_EQ(OnDevice(), (Texts{"dataloader/aten/copy_:copy_"}));
  EXPECT_EQ(counts_.nested, 2u);
}

// Batches and pinning are stages of the input, which have their own rows.
TEST_F(TorchOperationsTest, BatchesAndPinning_HaveNoRows) {
  Range("IteratorGetNext", RangeOrigin::kTensorFlow, 40);
  Range("MatMul", RangeOrigin::kTensorFlow, 60);
  Op("pin_memory");  // by the program itself
  on = Thread();
  Operation("aten::pin_memory", [&] { Op("_pin_memory"); });
  Range("IteratorGetNext", RangeOrigin::kTensorFlow,
        40);  // of another loop: the input page shows only the loop with the most
  on = 0;
  Range("IteratorGetNext", RangeOrigin::kTensorFlow, 40);
  Name();
  EXPECT_EQ(Named(), (Texts{"MatMul = MatMul:MatMul", "aten::pin_memory = aten/pin_memory:pin_memory"}));
  EXPECT_EQ(Named(1), (Texts{"IteratorGetNext = IteratorGetNext:IteratorGetNext"}));
  EXPECT_EQ(counts_.named, 3u);
}

// Every event has either a row or a stage.
TEST_F(TorchOperationsTest, PinningWithoutALoader_HasARow) {
  Op("mm");
  on = Thread();
  Op("pin_memory");
  Name();
  EXPECT_EQ(Named(on), (Texts{"aten::pin_memory = aten/pin_memory:pin_memory"})) << "there is no loader";
  EXPECT_TRUE(InputLines(timeline, 0).empty());
}

TEST_F(TorchOperationsTest, RangesWithoutPytorch_AreScopes) {
  Nvtx("step 3", [&] {
    Launch("first");
    Nvtx("forward", [&] {
      Launch("second");
      Nvtx("layer 1", [&] { Launch("third"); });
      Launch("fourth");
    });
  });
  Name();
  EXPECT_EQ(OnDevice(), (Texts{"", "forward:forward", "forward/layer_1:layer_1", "forward:forward"}));
  EXPECT_TRUE(Named().empty());
}

// The part of the reader's grammar by which it recognises a row.
TEST_F(TorchOperationsTest, InvalidNames_KeepTheGrammar) {
  const Texts odd = {"",
                     ":",
                     "::",
                     "a:b",
                     "_C::_foo",
                     "Iterator",
                     "5d",
                     "\xff\xfe",
                     "a b",
                     "aten::",
                     "/",
                     "mylib::fooBar",
                     "a//b",
                     "x:Type",
                     "\xe2\x82\xac",
                     "##",
                     "___",
                     "-a",
                     std::string(5000, 'n'),
                     "Iterator::Root",
                     "train 7"};
  for (const std::string& name : odd) {
    Operation(name, [&] { Launch("kernel"); });
    Scope(name, [&] {
      Launch("kernel");
      Forward("mm", 1);
      Nvtx(name, [&] { Op("mul"); });
    });
    Backward(name);
  }
  Name();
  const std::regex known("[A-Za-z0-9.][A-Za-z0-9_./>-]*:([A-Z_][A-Za-z0-9_]*|[a-z_][a-z0-9_]*)");
  std::map<std::string, int> seen;
  for (const std::string& text : OnDevice()) ++seen[text];
  for (const Event& event : timeline.threads[0].events) ++seen[timeline.strings.Get(event.detail)];
  seen.erase("");
  EXPECT_GT(seen.size(), 30u);
  for (const auto& [text, count] : seen) {
    EXPECT_TRUE(std::regex_match(text, known)) << text;
    EXPECT_FALSE(text.starts_with("Iterator:")) << text;
    EXPECT_LT(text.size(), 400u);
  }
}

// The recording begins in the middle of an operation.
TEST_F(TorchOperationsTest, PartsOfAnOperationThatIsNotRecorded_HaveNoRows) {
  const auto linear = [&] {
    Operation("aten::linear", [&] {
      Op("t");
      Op("addmm");
    });
  };
  for (int i = 0; i < 3; ++i) linear();
  Op("relu");
  Idle();
  timeline.processes[0].torch = {20, 1000, {{0, 1, false}, {now, 50, true}}};
  const size_t before = timeline.threads[0].events.size();
  Op("addmm");
  Op("relu");
  linear();
  Op("addmm");
  Name();
  std::vector<std::string> rows;
  for (size_t i = before; i < timeline.threads[0].events.size(); ++i) {
    rows.push_back(timeline.strings.Get(timeline.threads[0].events[i].detail));
  }
  EXPECT_EQ(rows, (Texts{"", "aten/relu:relu", "aten/linear:linear", "", "", "aten/addmm:addmm"}));
}

TEST_F(TorchOperationsTest, Estimates_AddUpToTheMissingTimeWithinThePauses) {
  Op("mm", 100);
  Op("relu", 50);
  const uint32_t line = Thread();
  timeline.threads[line].is_line = true;
  on = line;
  Range(kTorchPause, RangeOrigin::kTorchUser, 3000);
  on = 0;
  const int64_t behind = now;
  Op("mm", 100);
  on = line;
  Range(kTorchPause, RangeOrigin::kTorchUser, 1000);
  on = 0;
  Name();
  EXPECT_TRUE(TorchEstimates(timeline, 0).empty()) << "all are recorded";
  timeline.processes[0].torch = {3, 19, {{0, 1, false}, {behind, 20, false}}};
  const std::vector<EstimateLine> lines = TorchEstimates(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].note.find("PyTorch_operations_are_sampled/14_percent_recorded/"), 0u);
  int64_t whole = 0, end = 0;
  for (const EstimateBar& bar : lines[0].bars) {
    EXPECT_EQ(timeline.strings.Get(bar.operation), "aten/mm:mm") << "relu is all recorded";
    EXPECT_GE(bar.start_ps, end);
    end = bar.start_ps + bar.duration_ps;
    whole += bar.duration_ps;
  }
  EXPECT_NEAR(whole, 1900 * kUs, 10);
  // Threads work at the same time, so the estimates are longer than the pauses.
  timeline.processes[0].torch.weights[1].weight = 101;
  const std::vector<EstimateLine> more = TorchEstimates(timeline, 0);
  EXPECT_EQ(more.size(), 3u);
  EXPECT_TRUE(more[1].note.empty());
}

// One that a capture has ended, and one that began meanwhile.
TEST_F(TorchOperationsTest, EstimatesInPausesThatOverlap_AreInOrder) {
  Op("mm", 100);
  timeline.threads[0].end_ps = now;
  for (const int64_t begin : {0, 400, 900}) {
    const uint32_t line = Thread();
    timeline.threads[line].is_line = true;
    on = line;
    now = (1000 + begin) * kUs;
    Range(kTorchPause, RangeOrigin::kTorchUser, 600);
  }
  Name();
  timeline.processes[0].torch = {1, 9, {{0, 12, false}}};
  const std::vector<EstimateLine> lines = TorchEstimates(timeline, 0);
  ASSERT_EQ(lines.size(), 1u);
  int64_t end = 0, whole = 0;
  for (const EstimateBar& bar : lines[0].bars) {
    EXPECT_GE(bar.start_ps, end);
    end = bar.start_ps + bar.duration_ps;
    whole += bar.duration_ps;
  }
  EXPECT_NEAR(whole, 1100 * kUs, 10);
  EXPECT_LE(end, 2500 * kUs);
}

TEST(OperationOfName, NamesWithAColon_HaveRowsOfTheirOwn) {
  EXPECT_EQ(OperationOfName("gloo:all_reduce"), "gloo/all_reduce:all_reduce");
  EXPECT_EQ(OperationOfName("gloo:broadcast"), "gloo/broadcast:broadcast");
  EXPECT_EQ(OperationOfName("nccl:_all_gather_base"), "nccl/_all_gather_base:_all_gather_base");
  EXPECT_EQ(OperationOfName("load:Batch"), "load/Batch:Batch");
  EXPECT_EQ(OperationOfName("my load:batch[3]"), "my_load/batch_3_:batch");
  EXPECT_EQ(OperationOfName("!load:batch"), "op/_load/batch:batch");
}

TEST(OperationOfName, OtherNames_HaveNone) {
  for (const char* name : {"", "aten::mm", "c10d::allreduce_", "phase: load", "load", "load:", ":batch", "at 12:30",
                           "load:batchOne", "load:batch one", "load:Batch[3]", "https://host", "a:b:c"}) {
    EXPECT_EQ(OperationOfName(name), "") << name;
  }
}

TEST_F(TorchOperationsTest, NumbersInNames_PathsAreBounded) {
  for (int i = 0; i < 20'000; ++i) Nvtx("sample " + std::to_string(i), [&] { Op("mm"); });
  Name();
  EXPECT_LT(timeline.strings.size(), 35'000u) << "40,000 would be all";
  EXPECT_EQ(counts_.named, 20'000u);
}

}  // namespace
}  // namespace tbprof
