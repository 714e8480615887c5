// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/library_waits.h"

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

std::optional<ComputingThreads> ComputingBeside(const Timeline& timeline, uint32_t thread,
                                                const std::vector<WaitSlice>& waits) {
  if (!IsNativeSampled(timeline, timeline.threads[thread].process)) return std::nullopt;
  std::vector<TimeSpan> spans;
  for (const WaitSlice& wait : waits) spans.push_back({wait.start_ps, wait.end_ps});
  spans = Merged(std::move(spans));
  const int64_t length = LengthOf(spans);
  if (length <= 0) return std::nullopt;
  int64_t cpu_ps = 0, delay_ps = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.process != timeline.threads[thread].process || other.is_line) continue;
    if (other.start_ps >= spans.back().end_ps || (other.end_ps > 0 && other.end_ps <= spans.front().start_ps)) continue;
    // A thread without counts has not run for 10 ms.
    if (timeline.python.OfThread(i) != nullptr) continue;
    const UsageInSpans usage = UsageOf(timeline, i, spans);
    cpu_ps += usage.cpu_ps;
    delay_ps += usage.run_delay_ps;
  }
  const auto mean = [length](int64_t ps) { return static_cast<double>(ps) / static_cast<double>(length); };
  return ComputingThreads{mean(cpu_ps), mean(delay_ps)};
}

bool IsForGpu(const GpuTime& gpu, const std::vector<WaitSlice>& waits) {
  if (!gpu.any()) return false;
  std::array<int64_t, kStepParts> parts{};
  int64_t all = 0;
  for (const WaitSlice& wait : waits) {
    gpu.Add(wait.start_ps, wait.end_ps, &parts);
    all += wait.end_ps - wait.start_ps;
  }
  return (parts[static_cast<size_t>(StepPart::kKernels)] + parts[static_cast<size_t>(StepPart::kCopies)]) * 2 >= all;
}

}  // namespace tbprof
