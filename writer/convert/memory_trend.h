// SPDX-License-Identifier: Apache-2.0
//
// Whether live bytes rise from step to step.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_MEMORY_TREND_H_
#define TBPROF_WRITER_CONVERT_MEMORY_TREND_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tbprof {

struct MemoryLevel {
  int64_t time_ps;
  int64_t bytes;
};

// Fewer floors are no evidence for or against a rise.
inline constexpr size_t kLeastFloors = 10;

// The lowest level in each interval between two of `ends`, with the interval's beginning as its time; if there are many
// intervals, several become one. An interval without a level has the last one before it. Both inputs are sorted by
// time.
std::vector<MemoryLevel> FloorsOfSteps(const std::vector<MemoryLevel>& levels, const std::vector<int64_t>& ends);

struct MemoryTrend {
  bool known = false;  // false: there are fewer than kLeastFloors
  bool rises = false;
  size_t from = 0;  // the first floor of the rise
};

// `floors`: of equal parts of time. They rise if they do so steadily, to the end, and by more than their noise and than
// `least_bytes`. Of many, those of the last half or quarter may rise alone.
MemoryTrend TrendOf(std::span<const int64_t> floors, int64_t least_bytes);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_MEMORY_TREND_H_
