// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/library_waits.h"

#include <utility>

#include "writer/verdict/cpu_split.h"

namespace tbprof {

std::vector<WaitSlice> LibraryWaits(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& gaps) {
  std::vector<WaitSlice> waits;
  const ThreadBlocked* const blocked = timeline.BlockedOfThread(thread);
  if (blocked == nullptr) return waits;
  size_t at = 0;
  int64_t behind = INT64_MIN;
  for (const BlockedRun& run : blocked->runs) {
    if (run.kind != BlockedIn::kFutex || run.first_ps <= behind) continue;
    behind = run.last_ps;
    ForCommon(gaps, &at, run.first_ps, run.last_ps + 1, [&](int64_t from, int64_t to) {
      WaitSlice wait;
      wait.start_ps = from;
      wait.end_ps = wait.call_end_ps = to;
      wait.kind = WaitClass::kPool;
      waits.push_back(wait);
    });
  }
  return waits;
}

double ComputingBeside(const Timeline& timeline, uint32_t thread, const std::vector<WaitSlice>& waits) {
  std::vector<TimeSpan> spans;
  for (const WaitSlice& wait : waits) spans.push_back({wait.start_ps, wait.end_ps});
  spans = Merged(std::move(spans));
  const int64_t length = LengthOf(spans);
  if (length <= 0) return 0;
  int64_t cpu_ps = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.process != timeline.threads[thread].process || other.is_line) continue;
    if (timeline.python.OfThread(i) == nullptr) cpu_ps += UsageOf(timeline, i, spans).cpu_ps;
  }
  return static_cast<double>(cpu_ps) / static_cast<double>(length);
}

}  // namespace tbprof
