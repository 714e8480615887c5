// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/cpu_delay.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/step_span.h"

namespace tbprof {
namespace {

constexpr int64_t kLeastIntervalPs = 100'000'000'000;

}  // namespace

double DelayShareOfSteps(const Timeline& timeline) {
  if (timeline.steps.empty()) return 0;
  const uint32_t thread = timeline.steps[0].thread;
  std::vector<TimeSpan> spans;
  for (const Step& step : timeline.steps) {
    if (step.is_regular && step.thread == thread) spans.push_back({step.start_ps, step.end_ps});
  }
  spans = Merged(std::move(spans));
  const int64_t whole_ps = LengthOf(spans);
  if (whole_ps <= 0) return 0;
  const int64_t delay_ps = UsageOf(timeline, thread, spans).run_delay_ps;
  return std::clamp(static_cast<double>(delay_ps) / static_cast<double>(whole_ps), 0.0, 1.0);
}

void AddCpuDelayTrack(Timeline* timeline) {
  if (DelayShareOfSteps(*timeline) < kMuchDelay) return;
  const ThreadUsage& usage = *timeline->UsageOfThread(timeline->steps[0].thread);
  CounterTrack track;
  track.name =
      timeline->threads[usage.thread].is_main ? "main thread waits for a CPU" : "thread of the steps waits for a CPU";
  track.series = "percent";
  track.process = timeline->threads[usage.thread].process;
  const UsagePoint* from = &usage.points.front();
  for (const UsagePoint& point : usage.points) {
    const int64_t time_ps = point.at_ps - from->at_ps;
    if (time_ps < kLeastIntervalPs && &point != &usage.points.back()) continue;
    if (time_ps <= 0) break;
    // A wait counts when it ends: it may have begun in an earlier interval.
    const double share = static_cast<double>(point.run_delay_ps - from->run_delay_ps) / static_cast<double>(time_ps);
    track.samples.push_back({from->at_ps, 100 * std::min(share, 1.0)});
    from = &point;
  }
  timeline->counters.push_back(std::move(track));
}

}  // namespace tbprof
