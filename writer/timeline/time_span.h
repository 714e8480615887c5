// SPDX-License-Identifier: Apache-2.0
//
// Spans of time, and their union.
//
// Process: converter.
#ifndef TBPROF_WRITER_TIMELINE_TIME_SPAN_H_
#define TBPROF_WRITER_TIMELINE_TIME_SPAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tbprof {

struct TimeSpan {
  int64_t start_ps, end_ps;
};

// The time that both have in common.
inline int64_t CommonPs(TimeSpan a, TimeSpan b) {
  return std::max<int64_t>(0, std::min(a.end_ps, b.end_ps) - std::max(a.start_ps, b.start_ps));
}

inline int64_t LengthOf(const std::vector<TimeSpan>& spans) {
  int64_t length = 0;
  for (const TimeSpan& span : spans) length += span.end_ps - span.start_ps;
  return length;
}

// Calls `visit(start_ps, end_ps)` for each intersection of [start, end) with the spans, which are in order and
// disjoint. `*at` is the span to begin with, and is advanced: the calls must come in order of time.
template <typename Visit>
void ForCommon(const std::vector<TimeSpan>& spans, size_t* at, int64_t start, int64_t end, Visit&& visit) {
  while (*at < spans.size() && spans[*at].end_ps <= start) ++*at;
  for (size_t i = *at; i < spans.size() && spans[i].start_ps < end; ++i) {
    const int64_t from = start > spans[i].start_ps ? start : spans[i].start_ps;
    const int64_t to = end < spans[i].end_ps ? end : spans[i].end_ps;
    if (to > from) visit(from, to);
  }
}

// Returns the union of the spans: in order, disjoint.
inline std::vector<TimeSpan> Merged(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::start_ps);
  std::vector<TimeSpan> merged;
  for (const TimeSpan& next : spans) {
    if (!merged.empty() && next.start_ps <= merged.back().end_ps) {
      merged.back().end_ps = std::max(merged.back().end_ps, next.end_ps);
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

// `spans` without what they have in common with `holes`. Both in order and disjoint.
inline std::vector<TimeSpan> Without(const std::vector<TimeSpan>& spans, const std::vector<TimeSpan>& holes) {
  std::vector<TimeSpan> left;
  size_t hole = 0;
  for (TimeSpan span : spans) {
    while (hole < holes.size() && holes[hole].end_ps <= span.start_ps) ++hole;
    for (size_t i = hole; i < holes.size() && holes[i].start_ps < span.end_ps; ++i) {
      if (holes[i].start_ps > span.start_ps) left.push_back({span.start_ps, holes[i].start_ps});
      span.start_ps = std::min(holes[i].end_ps, span.end_ps);
    }
    if (span.start_ps < span.end_ps) left.push_back(span);
  }
  return left;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIME_SPAN_H_
