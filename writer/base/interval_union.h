// SPDX-License-Identifier: Apache-2.0
//
// The length of the union of intervals that are added in any order, in bounded memory: above half a million disjoint
// intervals the smallest gaps are dropped from memory, and only their total length is kept.
//
// Process: converter.
#ifndef TBPROF_WRITER_BASE_INTERVAL_UNION_H_
#define TBPROF_WRITER_BASE_INTERVAL_UNION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbprof {

class IntervalUnion {
 public:
  explicit IntervalUnion(size_t limit = 1u << 19) : limit_(limit) {}

  void Add(uint64_t start, uint64_t end) {
    if (end <= start) return;
    intervals_.push_back({start, end});
    if (intervals_.size() >= 2 * limit_) Merge();
  }

  uint64_t Length() {
    Join(0);
    uint64_t length = 0;
    for (const Interval& interval : intervals_) length += interval.end - interval.start;
    return length - std::min(length, forgotten_gaps_);
  }

 private:
  struct Interval {
    uint64_t start, end;
  };

  void Merge() {
    Join(gap_);
    while (intervals_.size() > limit_) {
      gap_ = gap_ == 0 ? 64 : gap_ * 2;
      Join(gap_);
    }
  }

  void Join(uint64_t gap) {
    std::sort(intervals_.begin(), intervals_.end(),
              [](const Interval& a, const Interval& b) { return a.start < b.start; });
    size_t out = 0;
    for (size_t i = 0; i < intervals_.size(); ++i) {
      const Interval next = intervals_[i];
      if (out > 0 && (next.start <= intervals_[out - 1].end || next.start - intervals_[out - 1].end <= gap)) {
        Interval& last = intervals_[out - 1];
        if (next.start > last.end) forgotten_gaps_ += next.start - last.end;
        last.end = std::max(last.end, next.end);
      } else {
        intervals_[out++] = next;
      }
    }
    intervals_.resize(out);
  }

  size_t limit_;
  std::vector<Interval> intervals_;
  uint64_t gap_ = 0;
  uint64_t forgotten_gaps_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_INTERVAL_UNION_H_
