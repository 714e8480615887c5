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
