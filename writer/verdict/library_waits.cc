// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/library_waits.h"

#include <algorithm>
#include <array>
#include <utility>

#include "writer/verdict/blocked_time.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/wait_parts.h"

namespace tbprof {

std::vector<WaitSlice> LibraryWaits(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                                    const std::vector<TimeSpan>& gaps) {
  std::vector<WaitSlice> waits;
  size_t at = 0;
  ForEachBlockedRun(timeline, thread, [&](const BlockedRun& run, uint32_t stack) {
    if (run.kind != BlockedIn::kFutex || PartOfBlocked(tags, stack, run.kind) != StepPart::kOperations) return;
    ForCommon(gaps, &at, run.first_ps, run.last_ps + 1, [&](int64_t from, int64_t to) {
      WaitSlice wait;
      wait.start_ps = from;
      wait.end_ps = wait.call_end_ps = to;
      wait.kind = WaitClass::kPool;
      waits.push_back(wait);
    });
  });
  return waits;
}

namespace {

// Calls `visit(index)` for the other threads of the process that run no Python and live in the spans.
template <typename Visit>
void ForEachWithoutPython(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans,
                          Visit&& visit) {
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.process != timeline.threads[thread].process || other.is_line) continue;
    if (other.start_ps >= spans.back().end_ps || (other.end_ps > 0 && other.end_ps <= spans.front().start_ps)) continue;
    if (timeline.python.OfThread(i) == nullptr) visit(i);
  }
}

}  // namespace

std::optional<double> ComputingBeside(const Timeline& timeline, uint32_t thread, const std::vector<WaitSlice>& waits) {
  const std::vector<TimeSpan> spans = SpansOf(waits);
  const int64_t length = LengthOf(spans);
  if (length <= 0 || !IsNativeSampled(timeline, timeline.threads[thread].process)) return std::nullopt;
  double cpu_ps = 0;
  // A thread without counts has not run for 10 ms.
  ForEachWithoutPython(timeline, thread, spans,
                       [&](uint32_t i) { cpu_ps += static_cast<double>(UsageOf(timeline, i, spans).cpu_ps); });
  return cpu_ps / static_cast<double>(length);
}

std::optional<double> BusyBeside(const Timeline& timeline, uint32_t thread, const std::vector<WaitSlice>& waits) {
  const std::vector<TimeSpan> spans = SpansOf(waits);
  const int64_t length = LengthOf(spans);
  if (length <= 0 || !IsNativeSampled(timeline, timeline.threads[thread].process)) return std::nullopt;
  // How many threads are busy, from one reading of a thread to the next.
  std::vector<std::pair<int64_t, double>> changes;
  ForEachWithoutPython(timeline, thread, spans, [&](uint32_t i) {
    const ThreadUsage* const usage = timeline.UsageOfThread(i);
    for (size_t at = 1; usage != nullptr && at < usage->points.size(); ++at) {
      const UsagePoint &from = usage->points[at - 1], &to = usage->points[at];
      const int64_t busy_ps = to.cpu_ps - from.cpu_ps + to.run_delay_ps - from.run_delay_ps;
      if (busy_ps <= 0 || to.at_ps <= from.at_ps) continue;
      const double threads = static_cast<double>(busy_ps) / static_cast<double>(to.at_ps - from.at_ps);
      changes.emplace_back(from.at_ps, threads);
      changes.emplace_back(to.at_ps, -threads);
    }
  });
  std::ranges::sort(changes);
  double threads = 0, busy_ps = 0;
  size_t at = 0;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    threads += changes[i].second;
    ForCommon(spans, &at, changes[i].first, changes[i + 1].first, [&](int64_t from, int64_t to) {
      busy_ps += static_cast<double>(to - from) * std::clamp(threads, 0.0, 1.0);
    });
  }
  return busy_ps / static_cast<double>(length);
}

bool IsForGpu(const GpuTime& gpu, const std::vector<WaitSlice>& waits) {
  if (!gpu.any()) return false;
  std::array<int64_t, kStepParts> parts{};
  int64_t all = 0;
  for (const WaitSlice& wait : waits) {
    gpu.Add(wait.start_ps, wait.end_ps, &parts);
    all += wait.end_ps - wait.start_ps;
  }
  return (parts[static_cast<size_t>(StepPart::kKernels)] + parts[static_cast<size_t>(StepPart::kCopies)]) >= all / 2;
}

}  // namespace tbprof
