// SPDX-License-Identifier: Apache-2.0
//
// Which calls and which work of GPUs belong to which step, as the reader of the xplane output will count it.
//
// The reader gives device work without a step to the step before it, and counts it there. So work that was launched
// outside of every step has no number of its call, only an arrow, and an event before it on a line of its own ends the
// step. docs/xspace-mapping.md, "With a GPU plane".
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_GPU_CALLS_H_
#define TBPROF_WRITER_OUTPUTS_GPU_CALLS_H_

#include <cstdint>
#include <vector>

#include "writer/outputs/xplane.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// A time on a device, after the work of one step and before that of another, with work of no step.
struct OutsideSpan {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  bool operator==(const OutsideSpan&) const = default;
};

// The level (`_r`) of these spans; steps have a higher one where there are spans.
inline constexpr int64_t kOutsideLevel = 1;

// The calls of the counted plane, and the steps that contain them.
class GpuCalls {
 public:
  GpuCalls(const Timeline& timeline, const HostPlane& counted, const std::vector<StepEvent>& steps);

  // The `_p` of the marker that contains this time; 0: none.
  uint64_t MarkerAt(int64_t time_ps) const;
  bool IsInStep(uint64_t correlation) const { return MarkerOf(correlation) != 0; }
  // Whether a kernel or a graph of the device belongs to a step: only then the reader gets steps of the device.
  bool HasSteps(uint32_t device) const { return device < has_steps_.size() && has_steps_[device]; }
  // Whether call and work have an arrow instead of a number, which the reader would count.
  bool IsOutside(uint64_t correlation) const {
    return correlation < outside_.size() && outside_[static_cast<size_t>(correlation)];
  }
  // In order, disjoint.
  const std::vector<OutsideSpan>& OutsideOf(uint32_t device) const { return spans_[device]; }
  bool AnyOutside() const;

 private:
  struct Marker {
    int64_t start, end;
  };
  // A call's place. Other numbers are those of markers.
  static constexpr uint32_t kNotKnown = UINT32_MAX;
  static constexpr uint32_t kNoMarker = 0;

  uint64_t MarkerOf(uint64_t correlation) const {
    const uint32_t marker = PlaceOf(correlation);
    return marker == kNotKnown ? 0 : marker;
  }
  uint32_t PlaceOf(uint64_t correlation) const {
    return correlation < places_.size() ? places_[static_cast<size_t>(correlation)] : kNotKnown;
  }
  void PlaceCalls(const Timeline& timeline, const HostPlane& counted);
  void FindSteps(const Timeline& timeline);
  void FindOutside(const Timeline& timeline, uint32_t device);

  std::vector<Marker> markers_;
  std::vector<uint32_t> places_;  // by correlation number
  std::vector<bool> has_steps_;   // by device
  std::vector<bool> outside_;     // by correlation number
  std::vector<std::vector<OutsideSpan>> spans_;
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

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_GPU_CALLS_H_
