// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_by_line.h"

#include <algorithm>
#include <cstdlib>

#include "writer/base/saturating.h"

namespace tbprof {
namespace {

// The distance to the first or the last sample of the run, whose times are known. Runs on the CPU have no other ones.
int64_t DistanceFrom(const PythonRun& run, int64_t at_ps) {
  return std::min(std::abs(at_ps - run.first_ps), std::abs(at_ps - run.last_ps));
}

// The run with the sample that is nearest to the point; null: none is near.
const PythonRun* RunNear(const std::vector<PythonRun>& runs, int64_t at_ps) {
  const auto behind = std::ranges::upper_bound(runs, at_ps, {}, &PythonRun::first_ps);
  const PythonRun* nearest = nullptr;
  int64_t distance_ps = kNearPs;
  const auto look = [&](const PythonRun& run) {
    if (const int64_t distance = DistanceFrom(run, at_ps); distance <= distance_ps) {
      nearest = &run;
      distance_ps = distance;
    }
  };
  if (behind != runs.begin()) look(*(behind - 1));
  if (behind != runs.end()) look(*behind);
  return nearest;
}

}  // namespace

NativeByLine DivideNativeByLine(const Timeline& timeline, const std::vector<const PythonThread*>& threads,
                                const SamplePhases& phases, std::optional<SamplePhase> phase) {
  absl::flat_hash_map<PythonLineKey, absl::flat_hash_map<uint32_t, NativeTally>> lines;
  for (const PythonThread* thread : threads) {
    const NativeThread* const native = timeline.native.OfThread(thread->thread);
    if (native == nullptr) continue;
    for (const NativePoint& point : native->points) {
      if (point.stack == 0 || (phase.has_value() && phases.At(point.at_ps) != *phase)) continue;
      const PythonRun* const run = RunNear(thread->runs, point.at_ps);
      if (run == nullptr || run->stack == 0) continue;
      const PythonStack& stack = timeline.python.stacks[run->stack];
      NativeTally& tally = lines[{stack.function, stack.line}][point.stack];
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
