// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/memory_growth.h"

#include <algorithm>
#include <iterator>

#include "writer/base/saturating.h"
#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

// From step to step: threads add their counts to the process's about every 64 KiB.
constexpr int64_t kLeastRise = 512 * 1024, kLeastRiseShare = 100;  // bytes, 1 / n of the peak
// Without steps: programs often build up what they need.
constexpr int64_t kLeastRiseOfTime = 8 << 20, kLeastRiseShareOfTime = 5;
constexpr int64_t kShortestTime = 5'000'000'000'000;  // ps
constexpr int64_t kPartsOfTime = 40;

bool HasSteps(const Timeline& timeline, uint32_t process) {
  const bool real = timeline.step_source != StepSource::kNone && timeline.step_source != StepSource::kWholeCapture;
  return real && !timeline.steps_in_detail && !timeline.steps.empty() &&
         timeline.steps[0].thread < timeline.threads.size() &&
         timeline.threads[timeline.steps[0].thread].process == process;
}

// From the end of the first to the end of the last regular step: memory that a program frees at its end shows nothing.
GrowthSpan SpanOfSteps(const Timeline& timeline) {
  const Step *first = nullptr, *last = nullptr;
  uint64_t between = 0, steps = 0;
  for (const Step& step : timeline.steps) {
    if (first != nullptr) ++between;
    if (!step.is_regular) continue;
    if (first == nullptr) first = &step;
    last = &step;
    steps = between;
  }
  return steps > 0 ? GrowthSpan{first->end_ps, last->end_ps, steps} : GrowthSpan{};
}

// The process's time in the window without the first tenth, and, if the process ended by itself, without the last
// tenth.
GrowthSpan SpanOfTime(const Process& process) {
  const int64_t tenth = (process.end_ps - process.start_ps) / 10;
  return {process.start_ps + tenth, process.exit_code >= 0 ? process.end_ps - tenth : process.end_ps, 0};
}

std::vector<int64_t> EndsOfSteps(const Timeline& timeline) {
  std::vector<int64_t> ends;
  bool regular = false;
  for (const Step& step : timeline.steps) {
    regular |= step.is_regular;
    if (regular) ends.push_back(step.end_ps);
  }
  return ends;
}

std::vector<int64_t> EndsOfParts(const GrowthSpan& span) {
  std::vector<int64_t> ends;
  if (span.to_ps - span.from_ps < kShortestTime) return ends;
  for (int64_t i = 0; i <= kPartsOfTime; ++i) {
    ends.push_back(span.from_ps + (span.to_ps - span.from_ps) / kPartsOfTime * i);
  }
  return ends;
}

// A module of the program that is imported and works is its work: `python -c 'import train'`.
bool IsOfImport(const Timeline& timeline, uint32_t stack) {
  for (; stack != 0; stack = timeline.python.stacks[stack].parent) {
    const PythonFunction& function = timeline.python.functions[timeline.python.stacks[stack].function];
    const PythonOrigin origin =
        PythonOriginOf(timeline.strings.Get(function.file), timeline.strings.Get(function.name));
    if (IsOfImportlib(origin)) return true;
    if (origin == PythonOrigin::kProgram) return false;
  }
  return false;
}

}  // namespace

uint64_t StepsBetween(const Timeline& timeline, int64_t from_ps, int64_t to_ps) {
  return static_cast<uint64_t>(std::ranges::count_if(
      timeline.steps, [&](const Step& step) { return step.end_ps > from_ps && step.end_ps <= to_ps; }));
}

int64_t LevelAt(const std::vector<MemoryLevel>& levels, int64_t at_ps) {
  const auto after = std::ranges::upper_bound(levels, at_ps, {}, &MemoryLevel::time_ps);
  return (after == levels.begin() ? levels.front() : *std::prev(after)).bytes;
}

std::optional<MemoryGrowth> GrowthOf(const std::vector<MemoryLevel>& levels, const GrowthSpan& span) {
  if (span.to_ps <= span.from_ps || levels.empty()) return std::nullopt;
  const int64_t bytes = LevelAt(levels, span.to_ps) - LevelAt(levels, span.from_ps);
  return MemoryGrowth{span.from_ps, span.to_ps, bytes, span.steps, {}};
}

GrowthAnswer FindGrowth(const Timeline& timeline, uint32_t process, const std::vector<MemoryLevel>& levels,
                        int64_t peak_bytes) {
  GrowthAnswer answer;
  const bool has_steps = HasSteps(timeline, process);
  if (has_steps) answer.span = SpanOfSteps(timeline);
  if (answer.span.steps == 0) answer.span = SpanOfTime(timeline.processes[process]);
  const std::vector<int64_t> ends = has_steps ? EndsOfSteps(timeline) : EndsOfParts(answer.span);
  const std::vector<MemoryLevel> floors = FloorsOfSteps(levels, ends);
  std::vector<int64_t> bytes;
  for (const MemoryLevel& floor : floors) bytes.push_back(floor.bytes);
  const int64_t least = has_steps ? std::max(kLeastRise, peak_bytes / kLeastRiseShare)
                                  : std::max(kLeastRiseOfTime, peak_bytes / kLeastRiseShareOfTime);
  const MemoryTrend trend = TrendOf(bytes, least);
  // A program without steps that does not grow all the time may still grow from one of its rounds to the next, and one
  // that grows late may just have come to another part of its work.
  const bool all_the_time = trend.rises && trend.from == 0;
  if (trend.known && (has_steps || all_the_time)) answer.grows = trend.rises;
  if (!has_steps || trend.from == 0) return answer;
  const int64_t from_ps = floors[trend.from].time_ps;
  answer.span.from_ps = from_ps;
  if (answer.span.steps > 0) answer.span.steps = StepsBetween(timeline, from_ps, answer.span.to_ps);
  return answer;
}

bool IsOfImports(const Timeline& timeline, const MemoryGrowth& growth) {
  int64_t imported = 0;
  for (const HeldBytes& row : growth.rows) {
    if (IsOfImport(timeline, row.python_stack)) AddSaturating(&imported, row.bytes);
  }
  return imported > 0 && imported >= growth.bytes / 2;
}

}  // namespace tbprof
