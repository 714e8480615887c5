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

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIME_SPAN_H_
