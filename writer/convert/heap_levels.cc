// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/heap_levels.h"

#include <algorithm>
#include <set>

namespace tbprof {
namespace {

int64_t Sum(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? INT64_MAX : INT64_MIN;
  return sum;
}

}  // namespace

ArmedPeriods AllocatorPeriods(const std::vector<WindowFact>& windows) {
  std::set<uint32_t> open;
  std::vector<WindowFact> counted;
  for (const WindowFact& window : windows) {
    if (window.event == WindowEvent::kOpened && (window.families & kFamilyMalloc) != 0) {
      // A window that is narrowed has a second opening in the spool.
      if (open.insert(window.number).second) counted.push_back(window);
    } else if (window.event == WindowEvent::kClosed && open.erase(window.number) != 0) {
      counted.push_back(window);
    }
  }
  return PeriodsOf(counted);
}

std::vector<CounterFact> LooksInWindow(const ProcessFacts& process, uint64_t open_ticks, uint64_t close_ticks) {
  std::vector<CounterFact> looks;
  const std::vector<CounterFact>& all = process.counters;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].ticks <= open_ticks || all[i].ticks > close_ticks) continue;
    // A peak is dated one tick before the sample that found it (SlotRecorder::AppendCounters).
    const bool is_peak = i + 1 < all.size() && all[i + 1].ticks == all[i].ticks + 1;
    if (is_peak && process.has_first && all[i].live_bytes <= process.first.peak_bytes) continue;
    looks.push_back(all[i]);
  }
  return looks;
}

HeapLevels HeapLevelsOf(const HeapLevelsRequest& request, const ArmedPeriods& periods) {
  const ProcessFacts& process = request.process;
  HeapLevels levels;
  levels.absolute = std::any_of(periods.begin(), periods.end(), [&](const auto& period) {
    return period.first <= request.image_start_ticks && request.open_ticks <= period.second;
  });
  // The threads' counters nearest to the opening fit the window's calls: their values at its begin, plus the
  // allocations and releases in it, give the bytes at its end. For a whole run there are none, and the launcher's
  // samples are used.
  int64_t begin = request.counted_at_open, before = 0;
  bool seen_before = false;
  for (const CounterFact& counter : process.counters) {
    if (counter.ticks > request.open_ticks) continue;
    before = seen_before ? std::max(before, counter.live_bytes) : counter.live_bytes;
    if (!process.has_first) begin = counter.live_bytes;
    seen_before = true;
  }
  int64_t lowest = std::min(begin, request.counted_at_close);
  int64_t highest = std::max(begin, request.counted_at_close);
  for (const CounterFact& look : LooksInWindow(process, request.open_ticks, request.close_ticks)) {
    lowest = std::min(lowest, look.live_bytes);
    highest = std::max(highest, look.live_bytes);
  }
  // The target's own peak misses no level. It is in the window if the process began there, or if the peak rose there.
  const bool began_here = process.start_ticks >= request.open_ticks;
  if (!began_here && process.has_first) {
    before = seen_before ? std::max(before, process.first.peak_bytes) : process.first.peak_bytes;
    seen_before = true;
  }
  if (began_here || (process.has_first && process.last.peak_bytes > process.first.peak_bytes)) {
    highest = std::max(highest, process.last.peak_bytes);
  }
  // If one thread allocates bytes and another frees them, each counts them at its own time: a sum may be slightly below
  // zero for a moment.
  if (!levels.absolute && lowest < 0) levels.shift = lowest == INT64_MIN ? INT64_MAX : -lowest;
  const auto level = [&](int64_t counted) { return std::max<int64_t>(Sum(counted, levels.shift), 0); };
  levels.begin_bytes = level(begin);
  levels.live_bytes = level(request.counted_at_close);
  levels.window_peak_bytes = level(highest);
  levels.peak_before_bytes = seen_before ? level(before) : levels.begin_bytes;
  levels.peak_bytes = std::max({level(process.last.peak_bytes), levels.window_peak_bytes, levels.peak_before_bytes});
  return levels;
}

}  // namespace tbprof
