// SPDX-License-Identifier: Apache-2.0
#include "writer/base/text.h"
#include "writer/convert/input_pipeline.h"
#include "writer/convert/torch_estimates.h"
#include "writer/outputs/memory_events.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xplane_counters.h"
#include "writer/outputs/xplane_gpu.h"
#include "writer/outputs/xplane_native.h"
#include "writer/outputs/xplane_python.h"

namespace tbprof {

XplaneCounts ExpectedXplane(const Timeline& timeline) {
  XplaneCounts counts;
  auto add_line = [&](uint64_t events) {
    if (events == 0) return;
    ++counts.lines;
    counts.events += events;
  };
  const std::vector<HostPlane> planes = HostPlanes(timeline);
  counts.planes = planes.size() + 1;
  const std::vector<StepEvent> steps = StepEvents(timeline);
  const GpuCalls calls(timeline, planes[0], steps);
  for (const HostPlane& plane : planes) {
    for (const uint32_t index : plane.threads) {
      const Thread& thread = timeline.threads[index];
      const size_t bars = &plane == &planes[0] ? StepsOfThread(timeline, thread, calls).bars.size() : 0;
      add_line(thread.events.size() + bars);
      add_line(PythonSpanCount(timeline, index));
      add_line(NativeSpanCount(timeline, index));
    }
  }
  for (const HostPlane& plane : planes) {
    uint64_t samples = 0;
    for (const CounterTrack& track : timeline.counters) {
      for (uint32_t process : plane.processes) {
        if (track.process == process && track.device < 0) samples += ShownSamples(timeline, track).size();
      }
    }
    add_line(samples);
  }
  for (uint32_t device = 0; device < timeline.gpu_devices.size(); ++device) {
    const XplaneCounts gpu = GpuPlaneCounts(timeline, device, calls);
    counts.planes += gpu.planes;
    counts.lines += gpu.lines;
    counts.events += gpu.events;
  }
  for (const HostPlane& plane : planes) {
    for (const uint32_t process : plane.processes) {
      if (!plane.merged) add_line(GilSpansOf(timeline, process).size());
      for (const EstimateLine& line : TorchEstimates(timeline, process)) {
        add_line(line.bars.size() + (line.note.empty() ? 0 : 1));
      }
    }
  }
  for (const InputLine& line : InputLines(timeline, CountedProcess(timeline))) add_line(line.events.size());
  add_line(steps.size());
  add_line(PhaseEvents(timeline).size());
  add_line(MemoryEvents(timeline, RowsOfMemoryEvents(timeline)).size());
  return counts;
}

absl::StatusOr<std::string> VerifyXplane(const std::string& path, const Timeline& timeline) {
  const absl::StatusOr<XplaneCounts> found = LintXplane(path, timeline.host);
  if (!found.ok()) return found.status();
  const XplaneCounts expected = ExpectedXplane(timeline);
  if (*found != expected) {
    return absl::DataLossError(StrCat(path, ": holds ", found->planes, " planes, ", found->lines, " lines, ",
                                      found->events, " events; ", expected.planes, ", ", expected.lines, ", ",
                                      expected.events, " were written"));
  }
  return StrCat("verified: ", Counted(found->planes, "plane"), ", ", Counted(found->lines, "line"), ", ",
                Counted(found->events, "event"));
}

}  // namespace tbprof
