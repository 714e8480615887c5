// SPDX-License-Identifier: Apache-2.0
//
// Whether the memory of a process grows, and between which moments.
//
//   const GrowthAnswer answer = FindGrowth(timeline, process, levels, peak_bytes);
//   answer.grows, answer.span.from_ps, answer.span.to_ps
//
// Call after the steps are chosen. In the process of the steps, growth is that from step to step. In other processes,
// and without steps, it is that between equal parts of the process's time.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_MEMORY_GROWTH_H_
#define TBPROF_WRITER_CONVERT_MEMORY_GROWTH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "writer/convert/memory_trend.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct GrowthSpan {
  int64_t from_ps = 0, to_ps = 0;
  uint64_t steps = 0;  // between the two; 0: not known
};

struct GrowthAnswer {
  GrowthSpan span;            // of the rise if there is one
  std::optional<bool> grows;  // none: no evidence for either
};

// The number of steps that end after `from_ps`, and at `to_ps` or before.
uint64_t StepsBetween(const Timeline& timeline, int64_t from_ps, int64_t to_ps);

// The last level at or before a moment; before the first level, that one. `levels`: not empty.
int64_t LevelAt(const std::vector<MemoryLevel>& levels, int64_t at_ps);

// The growth between the two moments of `span`; none if there is no time between them.
std::optional<MemoryGrowth> GrowthOf(const std::vector<MemoryLevel>& levels, const GrowthSpan& span);

// `levels`: in order of time. `peak_bytes`: of the same memory.
GrowthAnswer FindGrowth(const Timeline& timeline, uint32_t process, const std::vector<MemoryLevel>& levels,
                        int64_t peak_bytes);

// Whether imports of modules hold at least half of what grew: a program that loads what it needs does not leak.
bool IsOfImports(const Timeline& timeline, const MemoryGrowth& growth);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_MEMORY_GROWTH_H_
