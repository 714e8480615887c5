// SPDX-License-Identifier: Apache-2.0
//
// Timelines of PyTorch programs, made by hand: ranges nest as in recordings, and the test advances the clock.
#ifndef TBPROF_TESTS_UNIT_WRITER_TORCH_MAKER_H_
#define TBPROF_TESTS_UNIT_WRITER_TORCH_MAKER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "writer/timeline/timeline.h"

namespace tbprof {

class TorchMaker {
 public:
  static constexpr int64_t kUs = 1'000'000;

  TorchMaker() {
    timeline.processes.emplace_back().is_command = true;
    Thread();
    timeline.threads[0].is_main = true;
  }

  uint32_t Thread(uint32_t process = 0) {
    timeline.threads.emplace_back().process = process;
    timeline.threads.back().line_id = timeline.threads.size();
    return static_cast<uint32_t>(timeline.threads.size() - 1);
  }

  // A range on the thread `on` that begins now and ends when `inside` has advanced the clock.
  size_t Range(const std::string& name, RangeOrigin origin, const std::function<void()>& inside) {
    const uint32_t thread = on;
    const size_t at = Add(Type(name, EventFamily::kAnnotation, ValueKind::kNone, origin));
    inside();
    End(thread, at);
    return at;
  }
  size_t Range(const std::string& name, RangeOrigin origin, int64_t us) {
    return Range(name, origin, [&] { now += us * kUs; });
  }
  void Op(const std::string& name, int64_t us = 20) { Range("aten::" + name, RangeOrigin::kTorchOperation, us); }
  // An operation with the number that links it to its backward node.
  void Forward(const std::string& name, int64_t sequence, int64_t us = 20) {
    const size_t at =
        Add(Type("aten::" + name, EventFamily::kAnnotation, ValueKind::kSequence, RangeOrigin::kTorchOperation));
    timeline.threads[on].events[at].value = sequence;
    timeline.threads[on].events[at].object = on + 1;
    now += us * kUs;
    End(on, at);
  }
  void Backward(const std::string& node, int64_t us = 30, int64_t sequence = 0, uint64_t thread = 0) {
    const std::string outer = "autograd::engine::evaluate_function: " + node;
    const size_t at = Add(Type(outer, EventFamily::kAnnotation, sequence != 0 ? ValueKind::kSequence : ValueKind::kNone,
                               RangeOrigin::kTorchBackward));
    timeline.threads[on].events[at].value = sequence;
    timeline.threads[on].events[at].object = thread;
    now += kUs;
    Range(node, RangeOrigin::kTorchBackward, [&] { Op("mm", us - 2); });
    now += kUs;
    End(on, at);
  }
  void Batch(int64_t us = 50) {
    Range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", RangeOrigin::kTorchUser, [&] {
      now += us * kUs;
      Op("stack", 2);
    });
  }
  void Optimizer(const std::string& name = "SGD", int64_t us = 15) {
    Range("Optimizer.step#" + name + ".step", RangeOrigin::kTorchUser, [&] { Op("_foreach_add_", us); });
  }
  void Pass() {
    Op("linear");
    Op("relu");
    Op("linear");
    Op("cross_entropy_loss");
  }
  void PassBack() {
    for (const char* node : {"NllLossBackward0", "AddmmBackward0", "ReluBackward0", "AddmmBackward0"}) Backward(node);
  }
  void Idle(int64_t us = 5) { now += us * kUs; }

  // A call that puts a kernel on the device.
  void Launch(const std::string& kernel, int64_t us = 10) {
    const size_t at = Add(Type("cudaLaunchKernel", EventFamily::kGpu, ValueKind::kCorrelation, RangeOrigin::kProgram));
    timeline.threads[on].events[at].value = ++launches;
    now += 3 * kUs;
    End(on, at);
    if (timeline.gpu_streams.empty()) {
      timeline.gpu_devices.emplace_back();
      timeline.gpu_launches.emplace_back();
      timeline.gpu_streams.emplace_back().line_id = 7;
    }
    GpuEvent work;
    work.start_ps = now;
    work.duration_ps = us * kUs;
    work.correlation = static_cast<uint64_t>(launches);
    work.name = timeline.strings.Intern(kernel);
    timeline.gpu_streams[0].events.push_back(work);
  }

  // The thread `on` creates a kernel node of a graph now.
  void Node(uint64_t node, uint64_t original = 0) {
    timeline.graph_nodes.push_back({on, now, node, original});
    now += kUs;
  }
  // Launches a graph of one kernel.
  void LaunchGraph(uint64_t node) {
    Launch("of a graph");
    timeline.gpu_streams[0].events.back().graph = 1;
    timeline.gpu_streams[0].events.back().value = node;
  }

  Timeline& Done() {
    timeline.duration_ps = now;
    return timeline;
  }

  Timeline timeline;
  uint32_t on = 0;
  int64_t now = 0;
  int64_t launches = 0;

 private:
  uint16_t Type(const std::string& name, EventFamily family, ValueKind value, RangeOrigin origin) {
    for (size_t i = 0; i < timeline.types.size(); ++i) {
      const EventType& type = timeline.types[i];
      if (type.name == name && type.origin == origin && type.value == value) return static_cast<uint16_t>(i);
    }
    timeline.types.push_back({name, family, ObjectKind::kNone, value, origin});
    return static_cast<uint16_t>(timeline.types.size() - 1);
  }
  size_t Add(uint16_t type) {
    Event event;
    event.start_ps = now;
    event.type = type;
    timeline.threads[on].events.push_back(event);
    return timeline.threads[on].events.size() - 1;
  }
  void End(uint32_t thread, size_t at) {
    Event& event = timeline.threads[thread].events[at];
    event.duration_ps = now - event.start_ps;
  }
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_TORCH_MAKER_H_
