// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_by_line.h"

#include <algorithm>

#include "writer/base/saturating.h"

namespace tbprof {
namespace {

// As with spans: 2.5 periods.
constexpr int64_t kLongestGapInHalfPeriods = 5;

// A time in which each sample of a thread was at one line.
struct LineInterval {
  PythonLineKey line;
  int64_t first_ps, last_ps;
};

std::vector<LineInterval> IntervalsOf(const PythonTimeline& python, const PythonThread& thread) {
  std::vector<LineInterval> intervals;
  int64_t before_ps = 0;  // of the run before
  bool may_go_on = false;
  for (const PythonRun& run : thread.runs) {
    if (run.stack == 0) {
      may_go_on = false;
      continue;
    }
    const PythonStack& stack = python.stacks[run.stack];
    const PythonLineKey line = {stack.function, stack.line};
    const bool is_near = (run.first_ps - before_ps) / kLongestGapInHalfPeriods <= run.period_ps / 2;
    if (may_go_on && is_near && intervals.back().line == line) {
      intervals.back().last_ps = run.last_ps;
    } else {
      intervals.push_back({line, run.first_ps, run.last_ps});
    }
    before_ps = run.last_ps;
    may_go_on = true;
  }
  return intervals;
}

}  // namespace

NativeByLine DivideNativeByLine(const Timeline& timeline, const std::vector<const PythonThread*>& threads,
                                const SamplePhases& phases, std::optional<SamplePhase> phase) {
  absl::flat_hash_map<PythonLineKey, absl::flat_hash_map<uint32_t, NativeTally>> lines;
  for (const PythonThread* thread : threads) {
    const NativeThread* const native = timeline.native.OfThread(thread->thread);
    if (native == nullptr) continue;
    const std::vector<LineInterval> intervals = IntervalsOf(timeline.python, *thread);
    auto interval = intervals.begin();
    for (const NativePoint& point : native->points) {
      while (interval != intervals.end() && interval->last_ps < point.at_ps) ++interval;
      if (interval == intervals.end()) break;
      if (point.at_ps < interval->first_ps || point.stack == 0) continue;
      if (phase.has_value() && phases.At(point.at_ps) != *phase) continue;
      NativeTally& tally = lines[interval->line][point.stack];
      tally.stack = point.stack;
      ++tally.samples;
      AddSaturating(&tally.cpu_ps, PeriodPs(point));
    }
  }
  NativeByLine out;
  for (const auto& [line, tallies] : lines) {
    std::vector<NativeTally>& sorted = out[line];
    for (const auto& [stack, tally] : tallies) sorted.push_back(tally);
    std::ranges::sort(sorted, {}, &NativeTally::stack);
  }
  return out;
}

}  // namespace tbprof
