// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/representative_steps.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "writer/base/saturating.h"
#include "writer/steps/python_paths.h"

namespace tbprof {
namespace {

// Shares of the whole time. Warm-up, tuning and evaluation run other kernels; preparation and evaluation other lines.
constexpr double kMostKernels = 0.7, kMostLines = 0.5;
// Share of the full detail that regular steps must fill: an inner loop leaves time for the other work of the loop
// around it.
constexpr double kMostOfDetail = 0.7;
// Fewer samples do not show all lines.
constexpr uint64_t kFewestSamples = 30;

TimeSpan SpanOf(const std::vector<Step>& steps) {
  TimeSpan span = {INT64_MAX, 0};
  for (const Step& step : steps) {
    if (!step.is_regular) continue;
    span.start_ps = std::min(span.start_ps, step.start_ps);
    span.end_ps = std::max(span.end_ps, step.end_ps);
  }
  return span;
}

bool FillTheDetail(const Timeline& timeline, const std::vector<Step>& steps) {
  int64_t in_steps_ps = 0;
  for (const Step& step : steps) {
    if (step.is_regular) AddSaturating(&in_steps_ps, step.end_ps - step.start_ps);
  }
  const TimeSpan& detail = timeline.full_detail;
  return static_cast<double>(in_steps_ps) >= kMostOfDetail * static_cast<double>(detail.end_ps - detail.start_ps);
}

bool HasKernels(const Timeline& timeline) {
  return std::ranges::any_of(timeline.gpu_devices, [](const GpuDevice& device) { return device.kernel_ps > 0; });
}

bool AreItsKernels(const Timeline& timeline, const TimeSpan& span) {
  absl::flat_hash_set<StringId> seen;
  for (const GpuStream& stream : timeline.gpu_streams) {
    for (const GpuEvent& event : stream.events) {
      if (event.start_ps < span.end_ps && event.start_ps + event.duration_ps > span.start_ps) seen.insert(event.name);
    }
  }
  int64_t all_ps = 0, seen_ps = 0;
  for (const GpuDevice& device : timeline.gpu_devices) {
    for (const GpuKernelTotal& total : device.kernel_totals) {
      AddSaturating(&all_ps, total.total_ps);
      if (seen.contains(total.name)) AddSaturating(&seen_ps, total.total_ps);
    }
  }
  return static_cast<double>(seen_ps) >= kMostKernels * static_cast<double>(all_ps);
}

bool AreItsLines(const Timeline& timeline, const PythonThread& thread, const TimeSpan& span) {
  const PythonPaths paths(timeline);
  absl::flat_hash_set<uint32_t> seen;
  uint64_t samples = 0;
  for (const PythonRun& run : thread.runs) {
    if (run.from_ps >= span.end_ps || run.to_ps <= span.start_ps) continue;
    seen.insert(paths.Of(run.stack));
    samples += run.samples;
  }
  if (samples < kFewestSamples) return false;
  uint64_t all = 0, alike = 0;
  for (const PythonTally& tally : thread.tallies) {
    const uint32_t path = paths.Of(tally.stack);
    if (path == 0 || paths.Imports(tally.stack)) continue;
    all += tally.samples;
    if (seen.contains(path)) alike += tally.samples;
  }
  return static_cast<double>(alike) >= kMostLines * static_cast<double>(all);
}

}  // namespace

bool AreRepresentative(const Timeline& timeline, const std::vector<Step>& steps) {
  const TimeSpan span = SpanOf(steps);
  if (span.end_ps <= span.start_ps || !FillTheDetail(timeline, steps)) return false;
  if (HasKernels(timeline)) return AreItsKernels(timeline, span);
  const PythonThread* const thread = timeline.python.OfThread(steps.front().thread);
  return thread == nullptr || thread->tallies.empty() || AreItsLines(timeline, *thread, span);
}

}  // namespace tbprof
