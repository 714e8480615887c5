// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/torch_ranges.h"

#include <algorithm>

#include "writer/timeline/torch_names.h"

namespace tbprof::torch_steps {

Types::Types(const Timeline& timeline) : kinds_(timeline.types.size()) {
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const EventType& type = timeline.types[i];
    if (type.family != EventFamily::kAnnotation) continue;
    if (IsOptimizerStep(type.origin, type.name)) kinds_[i] = kOptimizer;
    if (IsLoaderNext(type.origin, type.name)) kinds_[i] = kBatch;
    if (IsFrameworkWork(type)) kinds_[i] = type.origin == RangeOrigin::kTorchBackward ? kBackward : kOperation;
    any_ |= kinds_[i] == kOptimizer || kinds_[i] == kBatch;
  }
}

ThreadRanges ReadThread(const Timeline& timeline, uint32_t thread, const Types& types) {
  ThreadRanges ranges;
  ranges.thread = thread;
  // For each kind, the end of the outermost open range.
  int64_t batch = -1, optimizer = -1, work = -1, backward = -1;
  for (const Event& event : timeline.threads[thread].events) {
    const Types::Kind kind = types[event.type];
    if (kind == Types::kNone || event.duration_ps <= 0) continue;
    const int64_t start = event.start_ps, end = event.start_ps + event.duration_ps;
    const Range range = {start, end, event.type, (event.flags & (Event::kClippedAtStart | Event::kClippedAtEnd)) == 0};
    switch (kind) {
      case Types::kBatch:
        if (start >= batch) ranges.batches.push_back(range), batch = end;
        break;
      case Types::kOptimizer:
        if (start >= optimizer && start >= backward) ranges.optimizers.push_back(range);
        optimizer = std::max(optimizer, end);
        break;
      case Types::kBackward:
        backward = std::max(backward, end);
        [[fallthrough]];
      default:
        if (start < work || start < batch) break;
        work = end;
        ranges.work.push_back(range);
    }
  }
  return ranges;
}

std::vector<int64_t> Backwards(const Timeline& timeline, uint32_t process, const Types& types) {
  std::vector<int64_t> times;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    for (const Event& event : thread.events) {
      if (types[event.type] == Types::kBackward) times.push_back(event.start_ps);
    }
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::vector<Interval> Pauses(const Timeline& timeline, uint32_t process) {
  std::vector<Interval> pauses;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process || !thread.is_line) continue;
    for (const Event& event : thread.events) {
      if (!IsTorchPause(timeline.types[event.type])) continue;
      pauses.push_back({event.start_ps, event.start_ps + event.duration_ps, ""});
    }
  }
  if (timeline.shortest_shown_ps > 0) {
    const TimeSpan& detail = timeline.full_detail;
    for (Interval& pause : pauses) {
      pause = {std::max(pause.start, detail.start_ps), std::min(pause.end, detail.end_ps), ""};
    }
    std::erase_if(pauses, [](const Interval& pause) { return pause.end <= pause.start; });
    pauses.push_back({INT64_MIN, detail.start_ps, ""});
    pauses.push_back({std::max(detail.start_ps, detail.end_ps), INT64_MAX, ""});
  }
  std::sort(pauses.begin(), pauses.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  return pauses;
}

bool OverlapAny(const std::vector<Interval>& intervals, int64_t start, int64_t end) {
  const auto first = std::partition_point(intervals.begin(), intervals.end(),
                                          [&](const Interval& interval) { return interval.end <= start; });
  return first != intervals.end() && first->start < end;
}

bool AnyIn(const std::vector<int64_t>& times, int64_t begin, int64_t end) {
  const auto first = std::lower_bound(times.begin(), times.end(), begin);
  return first != times.end() && *first < end;
}

}  // namespace tbprof::torch_steps
