// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_in_steps.h"

#include <algorithm>
#include <vector>

#include "writer/base/interval_union.h"

namespace tbprof {
namespace {

struct Span {
  int64_t start, end;
};

// Sorted by time, disjoint: steps of two threads may overlap and are merged.
std::vector<Span> RegularSteps(const Timeline& timeline) {
  std::vector<Span> spans;
  for (const Step& step : timeline.steps) {
    if (step.is_regular && step.end_ps > step.start_ps) spans.push_back({step.start_ps, step.end_ps});
  }
  std::ranges::sort(spans, {}, &Span::start);
  size_t kept = 0;
  for (const Span& span : spans) {
    if (kept > 0 && span.start <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, span.end);
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
  return spans;
}

// The first span that ends after `time`.
auto FirstBehind(const std::vector<Span>& spans, int64_t time) {
  return std::ranges::upper_bound(spans, time, {}, &Span::end);
}

bool IsMissingIn(const Timeline& timeline, const std::vector<Span>& steps) {
  return std::ranges::any_of(timeline.processes, [&](const Process& process) {
    return std::ranges::any_of(process.gpu.gaps, [&](const GpuGap& gap) {
      const auto step = FirstBehind(steps, gap.start_ps);
      return step != steps.end() && step->start < gap.end_ps;
    });
  });
}

}  // namespace

void MeasureGpuInSteps(Timeline* timeline) {
  if (timeline->step_source == StepSource::kNone || timeline->step_source == StepSource::kWholeCapture) return;
  const std::vector<Span> steps = RegularSteps(*timeline);
  int64_t whole = 0;
  for (const Span& step : steps) whole += step.end - step.start;
  const bool lost = !timeline->drops.empty() || timeline->records_not_kept != 0;
  if (whole <= 0 || lost || IsMissingIn(*timeline, steps)) return;
  std::vector<IntervalUnion> busy(timeline->gpu_devices.size());
  for (const GpuStream& stream : timeline->gpu_streams) {
    if (stream.device >= busy.size()) continue;
    for (const GpuEvent& event : stream.events) {
      const int64_t end = event.start_ps + event.duration_ps;
      for (auto step = FirstBehind(steps, event.start_ps); step != steps.end() && step->start < end; ++step) {
        busy[stream.device].Add(static_cast<uint64_t>(std::max(event.start_ps, step->start)),
                                static_cast<uint64_t>(std::min(end, step->end)));
      }
    }
  }
  for (size_t i = 0; i < busy.size(); ++i) {
    // Work without times cannot be assigned to steps.
    if (timeline->gpu_devices[i].untimed != 0) continue;
    timeline->gpu_devices[i].busy_in_steps_share =
        std::min(1.0, static_cast<double>(busy[i].Length()) / static_cast<double>(whole));
  }
}

}  // namespace tbprof
