// SPDX-License-Identifier: Apache-2.0
//
// Planes of GPUs in the xplane output, and how the calls on host lines are tied to them.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "writer/crc32c.h"
#include "writer/outputs/xplane.h"
#include "writer/timeline.h"
#include "writer/xspace_builder.h"

namespace tbprof {

// Ids of arrows: dense within the file, and apart from those of the other files of a run.
class FlowIds {
 public:
  explicit FlowIds(std::string_view host) : file_(Crc32c(0, host.data(), host.size()) & 0xFFFFFF) {}
  uint64_t For(int64_t flow) { return file_ << 32 | ids_.try_emplace(flow, ids_.size() + 1).first->second; }
  // Of a call of CUDA and what it caused.
  uint64_t ForCall(int64_t correlation) { return For(-correlation); }

 private:
  uint64_t file_;
  absl::flat_hash_map<int64_t, uint64_t> ids_;
};

// Calls of the counted plane and the steps they are in.
class GpuCalls {
 public:
  GpuCalls(const Timeline& timeline, const HostPlane& counted, const std::vector<StepEvent>& steps);

  // The `_p` of the marker that holds this moment; 0: none.
  uint64_t MarkerAt(int64_t time_ps) const;
  // Whether the call of that number is on another plane. There the number would make it work of a device.
  bool IsElsewhere(uint64_t correlation) const { return correlation < elsewhere_.size() && elsewhere_[correlation]; }
  bool IsInStep(uint64_t correlation) const { return correlation < in_step_.size() && in_step_[correlation]; }

 private:
  struct Marker {
    int64_t start, end;
  };
  std::vector<Marker> markers_;
  std::vector<bool> elsewhere_, in_step_;
};

// What ties a thread's calls to the steps. `_c` on a call would take its arrow to the device away, so an event around
// all calls of a step carries it; where two of those would overlap, the calls themselves do.
struct LaunchBar {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  uint64_t marker = 0;
};
struct ThreadSteps {
  std::vector<LaunchBar> bars;  // in order, disjoint; properly nested with the thread's events
  std::vector<uint32_t> tied;   // indexes of calls, ascending
};
ThreadSteps StepsOfThread(const Timeline& timeline, const Thread& thread, const GpuCalls& calls);

// Lines and events that WriteGpuPlane writes of a device; no line: no plane either.
XplaneCounts GpuPlaneCounts(const Timeline& timeline, uint32_t device);
absl::Status WriteGpuPlane(const Timeline& timeline, uint32_t device, const GpuCalls& calls, FlowIds& flows,
                           XSpaceWriter& writer);

// `CUDA error 2 (out of memory)`
std::string CudaErrorText(int error);

// `Stream #7(Compute,MemcpyH2D)`, as XLA names them; `with_process`: several share the device.
std::string StreamName(const Timeline& timeline, const GpuStream& stream, bool with_process);
std::string_view MemoryKindName(uint8_t kind);
// What all outputs show as the event's name.
std::string GpuEventName(const Timeline& timeline, const GpuEvent& event);
// `regs:32 static_shared:0 dynamic_shared:4096 grid:8,1,1 block:256,1,1 occ_pct:50`
std::string KernelDetails(const GpuLaunch& launch);

// The name of a counter's series. One called like a stat of schema.def would be read as that stat.
std::string SeriesName(const CounterTrack& track);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_
