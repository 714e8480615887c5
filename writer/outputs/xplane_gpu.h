// SPDX-License-Identifier: Apache-2.0
//
// GPU planes in the xplane output, and the links from calls on host lines to GPU planes and steps.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The calls of the counted plane, and the steps that contain them.
class GpuCalls {
 public:
  GpuCalls(const Timeline& timeline, const HostPlane& counted, const std::vector<StepEvent>& steps);

  // The `_p` of the marker that contains this time; 0: none.
  uint64_t MarkerAt(int64_t time_ps) const;
  bool IsInStep(uint64_t correlation) const { return correlation < in_step_.size() && in_step_[correlation]; }

 private:
  struct Marker {
    int64_t start, end;
  };
  std::vector<Marker> markers_;
  std::vector<bool> in_step_;
};

// Links a thread's calls to the steps. `_c` on a call would remove its arrow to the device, so an event around all
// calls of a step carries it. Where two such events would overlap, the calls themselves carry it.
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

// The lines and events that WriteGpuPlane writes for a device. Without lines it writes no plane.
XplaneCounts GpuPlaneCounts(const Timeline& timeline, uint32_t device);
absl::Status WriteGpuPlane(const Timeline& timeline, uint32_t device, const GpuCalls& calls, XSpaceWriter& writer);

// `CUDA error 2 (out of memory)`
std::string CudaErrorText(int error);

// `Stream #7(Compute,MemcpyH2D)`, as XLA names streams; `with_process`: several processes share the device.
std::string StreamName(const Timeline& timeline, const GpuStream& stream, bool with_process);
std::string_view MemoryKindName(uint8_t kind);
// The event's name in all outputs.
std::string GpuEventName(const Timeline& timeline, const GpuEvent& event);
// `regs:32 static_shared:0 dynamic_shared:4096 grid:8,1,1 block:256,1,1 occ_pct:50`
std::string KernelDetails(const GpuLaunch& launch);

// The name of a counter's series. A series with the name of a stat of schema.def would be read as that stat.
std::string SeriesName(const CounterTrack& track);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_
