// SPDX-License-Identifier: Apache-2.0
//
// Whether live bytes rise from step to step.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_MEMORY_TREND_H_
#define TBPROF_WRITER_CONVERT_MEMORY_TREND_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tbprof {

struct MemoryLevel {
  int64_t time_ps;
  int64_t bytes;
};

// With fewer there is no evidence for or against.
inline constexpr size_t kLeastFloors = 10;

// The lowest level in each of the intervals between two of `ends`; of many intervals several are one. Those in which
// nothing was seen are left out. Both sorted by time.
std::vector<int64_t> FloorsOfSteps(const std::vector<MemoryLevel>& levels, const std::vector<int64_t>& ends);

// Of the floors of equal parts of time: true where they rise steadily, to the end, and by more than their noise and
// than `least_bytes`. None: there are fewer than kLeastFloors.
std::optional<bool> RisesSteadily(const std::vector<int64_t>& floors, int64_t least_bytes);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_MEMORY_TREND_H_
