// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/device_launches.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"
#include "writer/base/stable_hash.h"
#include "writer/timeline/wait_sites.h"

namespace tbprof {
namespace {

// XLA fills the area around a buffer with this kernel, to detect whether a kernel that it tries writes outside of the
// buffer.
constexpr std::string_view kTrialKernel = "RedzoneAllocatorKernel";
// If a larger share of a thread's launches are trials, the thread only tries kernels. Measured on such a thread: a
// third.
constexpr double kMostTrials = 0.125;

// The device work that one call caused.
struct Work {
  const GpuEvent* first = nullptr;
  int64_t device_ps = 0;
};

class WorkOfCalls {
 public:
  WorkOfCalls(const Timeline& timeline, uint32_t process) : timeline_(timeline) {
    for (const GpuStream& stream : timeline.gpu_streams) {
      if (stream.process != process) continue;
      for (const GpuEvent& event : stream.events) {
        Work& of_call = work_[event.correlation];
        if (of_call.first == nullptr) of_call.first = &event;
        AddSaturating(&of_call.device_ps, event.duration_ps);
      }
    }
  }
  bool empty() const { return work_.empty(); }
  // Null: the call caused no device work.
  const Work* Of(const Event& event) const {
    if (timeline_.types[event.type].value != ValueKind::kCorrelation || event.value == 0) return nullptr;
    const auto found = work_.find(static_cast<uint64_t>(event.value));
    return found == work_.end() ? nullptr : &found->second;
  }

 private:
  const Timeline& timeline_;
  absl::flat_hash_map<uint64_t, Work> work_;
};

StepLaunch LaunchOf(const Timeline& timeline, const Event& call, const GpuEvent& work) {
  StepLaunch launch;
  launch.start_ps = call.start_ps;
  launch.end_ps = call.start_ps + call.duration_ps;
  if (work.graph != 0) {
    launch.symbol = StableHash(call.type, work.graph);
    launch.flags = StepLaunch::kExecutable;
    return launch;
  }
  if (work.kind == GpuEventKind::kKernel) {
    launch.symbol = StableHash(call.type, work.name);
    if (NameLooksLikeOptimizer(timeline.strings.Get(work.name))) launch.flags |= StepLaunch::kOptimizer;
  } else {
    // Hashes only the bit width of the size: the copies of different batches differ by a few bytes.
    launch.symbol = StableHash(call.type, static_cast<int>(work.kind), work.copy_kind, std::bit_width(work.value));
    if (work.asynchronous == 0) launch.flags |= StepLaunch::kBlocking;
  }
  return launch;
}

struct Repeated {
  size_t launches = 0;
  int64_t first_ps = 0, last_ps = 0;

  void Add(int64_t time_ps) {
    if (launches++ == 0) first_ps = time_ps;
    last_ps = time_ps;
  }
};

struct OfThread {
  int64_t device_ps = 0;
  Repeated all;
  Repeated graph;  // the graph that is launched most often
  size_t trials = 0;

  bool OnlyTriesKernels() const {
    return static_cast<double>(trials) > kMostTrials * static_cast<double>(all.launches);
  }
  bool RepeatsAGraph() const { return graph.launches >= kFewestLaunches; }
};

OfThread Measure(const Timeline& timeline, const Thread& thread, const WorkOfCalls& work) {
  OfThread measured;
  absl::flat_hash_map<uint64_t, Repeated> graphs;
  absl::flat_hash_map<StringId, bool> is_trial;
  for (const Event& event : thread.events) {
    const Work* of_call = work.Of(event);
    if (of_call == nullptr) continue;
    AddSaturating(&measured.device_ps, of_call->device_ps);
    measured.all.Add(event.start_ps);
    const GpuEvent& first = *of_call->first;
    if (first.graph != 0) {
      Repeated& graph = graphs[first.graph];
      graph.Add(event.start_ps);
      // Of several graphs with as many launches, takes the one that reached the number first.
      if (graph.launches > measured.graph.launches) measured.graph = graph;
    } else if (first.kind == GpuEventKind::kKernel) {
      const auto [name, is_new] = is_trial.try_emplace(first.name, false);
      if (is_new) name->second = timeline.strings.Get(first.name).find(kTrialKernel) != std::string_view::npos;
      measured.trials += name->second ? 1 : 0;
    }
  }
  return measured;
}

// Returns the thread that keeps the devices busiest. Exception: if that thread repeats no graph, and another one
// launches a graph repeatedly at a different time, returns the other one. A thread that prepares something may cause
// more device work than a short training.
std::optional<uint32_t> ChooseThread(const Timeline& timeline, uint32_t process, const WorkOfCalls& work) {
  std::optional<uint32_t> busiest, repeats;
  OfThread most, most_graphs;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process) continue;
    const OfThread measured = Measure(timeline, timeline.threads[i], work);
    if (measured.OnlyTriesKernels()) continue;
    if (measured.device_ps > most.device_ps) {
      busiest = i;
      most = measured;
    }
    if (measured.RepeatsAGraph() && measured.graph.launches > most_graphs.graph.launches) {
      repeats = i;
      most_graphs = measured;
    }
  }
  if (!busiest || !repeats || most.RepeatsAGraph()) return busiest;
  const bool at_once = most.all.first_ps <= most_graphs.graph.last_ps && most_graphs.graph.first_ps <= most.all.last_ps;
  return at_once ? busiest : repeats;
}

}  // namespace

DeviceLaunches LaunchesOnDevices(const Timeline& timeline, uint32_t process) {
  DeviceLaunches device;
  const WorkOfCalls work(timeline, process);
  if (work.empty()) return device;
  const std::optional<uint32_t> chosen = ChooseThread(timeline, process, work);
  if (!chosen) return device;
  device.thread = *chosen;
  for (const Event& event : timeline.threads[*chosen].events) {
    if (const Work* of_call = work.Of(event); of_call != nullptr) {
      device.launches.push_back(LaunchOf(timeline, event, *of_call->first));
    } else if (IsGpuWait(timeline.types[event.type])) {
      device.launches.push_back(
          {event.start_ps, event.start_ps + event.duration_ps, StableHash(event.type), StepLaunch::kBlocking});
    }
  }
  return device;
}

}  // namespace tbprof
