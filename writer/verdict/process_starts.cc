// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/process_starts.h"

#include <algorithm>
#include <set>

#include "writer/verdict/blockers.h"

namespace tbprof {
namespace {

// A fork child of a loader has its first batch after some milliseconds. One that lives so short a time does little but
// start and end.
constexpr int64_t kForkedStartPs = 15'000'000'000, kShortLifePs = 200'000'000'000;

// The starts of fork children of `own` within `spans`, if some began when others had ended: of those without a sample,
// and of those with a short life.
std::vector<TimeSpan> ForkedStarts(const Timeline& timeline, uint32_t own, const std::vector<TimeSpan>& spans) {
  constexpr size_t kFewest = 4;
  std::set<uint32_t> sampled;
  for (const PythonThread& python : timeline.python.threads) {
    if (python.thread < timeline.threads.size() && !python.runs.empty()) {
      sampled.insert(timeline.threads[python.thread].process);
    }
  }
  std::vector<TimeSpan> starts;
  int64_t first_end_ps = INT64_MAX, last_start_ps = 0;
  for (uint32_t i = 0; i < timeline.processes.size() && !spans.empty(); ++i) {
    const Process& process = timeline.processes[i];
    if (!process.forked || process.parent != static_cast<int>(own) || process.end_ps <= process.start_ps) continue;
    if (process.end_ps < spans.front().start_ps || process.start_ps > spans.back().end_ps) continue;
    const bool is_short = process.end_ps - process.start_ps < kShortLifePs;
    if (!is_short && sampled.contains(i)) continue;
    starts.push_back({process.start_ps, is_short ? process.end_ps : process.start_ps + kForkedStartPs});
    last_start_ps = std::max(last_start_ps, process.start_ps);
    first_end_ps = std::min(first_end_ps, process.end_ps);
  }
  const bool again = starts.size() >= kFewest && last_start_ps >= first_end_ps;
  return again ? starts : std::vector<TimeSpan>();
}

}  // namespace

double ShareOfStarts(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                     const std::vector<TimeSpan>& spans) {
  std::vector<TimeSpan> starts;
  const uint32_t own = timeline.threads[thread].process;
  int64_t first_end_ps = INT64_MAX, last_start_ps = 0;
  for (const PythonThread& python : timeline.python.threads) {
    if (python.thread >= timeline.threads.size()) continue;
    const Thread& of = timeline.threads[python.thread];
    const Process& process = timeline.processes[of.process];
    if (!of.is_main || of.process == own || !IsWithin(timeline, of.process, own)) continue;
    const auto begun =
        std::ranges::find_if(python.runs, [&](const PythonRun& run) { return tags.IsOfWorker(run.stack); });
    if (begun == python.runs.end()) continue;
    starts.push_back({process.start_ps, begun->from_ps});
    last_start_ps = std::max(last_start_ps, process.start_ps);
    if (process.end_ps > process.start_ps) first_end_ps = std::min(first_end_ps, process.end_ps);
  }
  if (last_start_ps < first_end_ps) starts.clear();
  for (const TimeSpan& start : ForkedStarts(timeline, own, spans)) starts.push_back(start);
  std::erase_if(starts, [](const TimeSpan& start) { return start.end_ps <= start.start_ps; });
  starts = Merged(std::move(starts));
  int64_t common = 0;
  size_t at = 0;
  for (const TimeSpan& wait : spans) {
    ForCommon(starts, &at, wait.start_ps, wait.end_ps, [&](int64_t from, int64_t to) { common += to - from; });
  }
  const int64_t all = LengthOf(spans);
  return all > 0 ? static_cast<double>(common) / static_cast<double>(all) : 0;
}

bool IsOfMultiprocessing(const Timeline& timeline, const PythonTags& tags, uint32_t thread) {
  const PythonThread* const python = timeline.python.OfThread(thread);
  return python != nullptr &&
         std::ranges::any_of(python->runs, [&](const PythonRun& run) { return tags.IsOfWorker(run.stack); });
}

}  // namespace tbprof
