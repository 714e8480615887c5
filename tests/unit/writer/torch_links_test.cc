// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/torch_links.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/writer/torch_maker.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xplane_gpu.h"
#include "writer/steps/torch_steps.h"

namespace tbprof {
namespace {

class TorchLinksTest : public testing::Test, protected TorchMaker {
 protected:
  // Each link as `operation > node`, in the order of the links.
  std::vector<std::string> Links() {
    Done();
    const TorchLinks links(timeline);
    std::map<uint32_t, std::string> from;
    std::map<uint32_t, std::string> to;
    for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
      for (size_t j = 0; j < timeline.threads[i].events.size(); ++j) {
        const uint32_t link = links.Of(i, j);
        if (link == 0) continue;
        const EventType& type = timeline.types[timeline.threads[i].events[j].type];
        (EndsTorchLink(type) ? to : from)[link] += (EndsTorchLink(type) ? " > " : "") + type.name;
      }
    }
    std::vector<std::string> texts;
    for (const auto& [link, text] : from) texts.push_back(text + to[link]);
    return texts;
  }
  void Operation(const std::string& name, int64_t sequence, const std::function<void()>& inside) {
    now += kUs;
    Forward(name, sequence, 0);
    const uint32_t thread = on;
    const size_t at = timeline.threads[thread].events.size() - 1;
    inside();
    now += kUs;
    Event& event = timeline.threads[thread].events[at];
    event.duration_ps = now - event.start_ps;
  }
  void Node(const std::string& name, int64_t sequence, uint64_t thread = 1) { Backward(name, 10, sequence, thread); }
};

using Texts = std::vector<std::string>;
const std::string kNode = "autograd::engine::evaluate_function: ";

// The numbers that PyTorch 2.13 gives a linear layer.
TEST_F(TorchLinksTest, NumberUsedTwice_LinksTheOutermostOfTheLast) {
  Forward("stack", 100);
  Operation("linear", 100, [&] {
    Forward("t", 100);
    Forward("addmm", 101);
  });
  Operation("cross_entropy_loss", 102, [&] {
    Operation("log_softmax", 102, [&] { Forward("_log_softmax", 102); });
    Operation("nll_loss_nd", 103, [&] { Forward("nll_loss_forward", 103); });
  });
  on = Thread();
  Node("NllLossBackward0", 103);
  Node("LogSoftmaxBackward0", 102);
  Node("AddmmBackward0", 101);
  Node("TBackward0", 100);
  on = 0;
  Forward("stack", 104);
  EXPECT_EQ(Links(), (Texts{"aten::nll_loss_nd > " + kNode + "NllLossBackward0",
                            "aten::cross_entropy_loss > " + kNode + "LogSoftmaxBackward0",
                            "aten::addmm > " + kNode + "AddmmBackward0", "aten::linear > " + kNode + "TBackward0"}));
}

TEST_F(TorchLinksTest, Numbers_BelongToTheirThread) {
  Forward("mm", 5);
  on = Thread();
  Forward("relu", 5);
  on = Thread();
  Node("ReluBackward0", 5, 2);
  Node("MmBackward0", 5, 1);
  Node("OtherBackward0", 5, 3);
  Node("OtherBackward0", 6, 1);
  EXPECT_EQ(Links(), (Texts{"aten::relu > " + kNode + "ReluBackward0", "aten::mm > " + kNode + "MmBackward0"}));
}

TEST_F(TorchLinksTest, GraphUsedTwice_LinksBothNodes) {
  Forward("mm", 5);
  Node("MmBackward0", 5);
  Node("MmBackward0", 5);
  EXPECT_EQ(Links(), (Texts{"aten::mm > " + kNode + "MmBackward0 > " + kNode + "MmBackward0"}));
}

TEST_F(TorchLinksTest, TooManyLinks_LongestAreKept) {
  for (int i = 1; i <= 50'000; ++i) {
    Forward("mm", i, 1);
    Backward("MmBackward0", i % 100 + 5, i, 1);
  }
  Done();
  const TorchLinks links(timeline);
  EXPECT_EQ(links.size(), 2 * kMostLinks);
}

// Bars assign the launches of other threads to a step; the nodes of the backward pass begin and end anywhere.
TEST_F(TorchLinksTest, Steps_IncludeTheThreadOfTheBackwardPass) {
  const uint32_t autograd = Thread();
  for (int i = 0; i < 8; ++i) {
    Batch();
    Forward("mm", i + 1, 10);
    Launch("gemm");
    on = autograd;
    for (const char* node : {"AddmmBackward0", "MmBackward0"}) {
      Range(node, RangeOrigin::kTorchBackward, [&] {
        Idle(2);
        Launch("gemm");
        Range("aten::mm", RangeOrigin::kTorchOperation, [&] { Launch("gemm"); });
        Idle(2);
      });
    }
    on = 0;
    Optimizer();
  }
  timeline.steps = FindTorchSteps(Done(), 0).steps;
  ASSERT_EQ(timeline.steps.size(), 8u);
  const std::vector<StepEvent> steps = StepEvents(timeline);
  const GpuCalls calls(timeline, HostPlanes(timeline)[0], steps);
  const ThreadSteps bars = StepsOfThread(timeline, timeline.threads[autograd], calls);
  ASSERT_EQ(bars.bars.size(), 8u);
  EXPECT_TRUE(bars.tied.empty());
  std::set<uint64_t> markers;
  for (size_t i = 0; i < 8; ++i) {
    const Step& step = timeline.steps[i];
    EXPECT_GE(bars.bars[i].start_ps, step.start_ps);
    EXPECT_LE(bars.bars[i].end_ps, step.end_ps);
    EXPECT_TRUE(markers.insert(bars.bars[i].marker).second);
    for (const Event& event : timeline.threads[autograd].events) {
      if (event.value == 0 || event.start_ps < step.start_ps || event.start_ps >= step.end_ps) continue;
      EXPECT_GE(event.start_ps, bars.bars[i].start_ps);
      EXPECT_LE(event.start_ps + event.duration_ps, bars.bars[i].end_ps);
    }
  }
}

}  // namespace
}  // namespace tbprof
