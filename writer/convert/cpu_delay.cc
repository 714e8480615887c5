// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/cpu_delay.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tbprof {
namespace {

constexpr int64_t kLeastIntervalPs = 100'000'000'000;

const ThreadUsage* UsageOfSteps(const Timeline& timeline) {
  if (timeline.steps.empty()) return nullptr;
  const auto found = std::ranges::lower_bound(timeline.usage, timeline.steps[0].thread, {}, &ThreadUsage::thread);
  const bool is_there = found != timeline.usage.end() && found->thread == timeline.steps[0].thread;
  return is_there && found->points.size() >= 2 ? &*found : nullptr;
}

// The count at a moment: it grows evenly between two points.
double DelayAt(const std::vector<UsagePoint>& points, int64_t at_ps) {
  const auto after = std::ranges::lower_bound(points, at_ps, {}, &UsagePoint::at_ps);
  if (after == points.begin()) return static_cast<double>(points.front().run_delay_ps);
  if (after == points.end()) return static_cast<double>(points.back().run_delay_ps);
  const UsagePoint& before = *(after - 1);
  const double part = static_cast<double>(at_ps - before.at_ps) / static_cast<double>(after->at_ps - before.at_ps);
  return std::lerp(static_cast<double>(before.run_delay_ps), static_cast<double>(after->run_delay_ps), part);
}

}  // namespace

double DelayShareOfSteps(const Timeline& timeline) {
  const ThreadUsage* const usage = UsageOfSteps(timeline);
  if (usage == nullptr) return 0;
  double delay = 0, whole = 0;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular || step.thread != usage->thread) continue;
    delay += DelayAt(usage->points, step.end_ps) - DelayAt(usage->points, step.start_ps);
    whole += static_cast<double>(step.end_ps - step.start_ps);
  }
  return whole > 0 ? std::clamp(delay / whole, 0.0, 1.0) : 0;
}

void AddCpuDelayTrack(Timeline* timeline) {
  if (DelayShareOfSteps(*timeline) < kMuchDelay) return;
  const ThreadUsage& usage = *UsageOfSteps(*timeline);
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
