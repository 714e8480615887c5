// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/summary_format.h"
#include "writer/verdict/cause_choice.h"
#include "writer/verdict/place_of_row.h"

namespace tbprof {
namespace {

// Differences between the shares of waiting. From kLargeDifference on it does not matter how long all processes wait
// for each other.
constexpr double kLeastDifference = 0.15, kLargeDifference = 0.3;
// Least share of waiting: a process that only starts the others does not wait for them at a barrier.
constexpr double kLeastWait = 0.005;

bool WaitsForOthers(const PythonTags& tags, const WaitSlice& wait) {
  const PythonTag tag = tags.TagOf(wait.stack);
  return wait.kind == WaitClass::kCollective || tag == PythonTag::kBarrier || tag == PythonTag::kCollective;
}

}  // namespace

bool IsStraggler(double most, double least) {
  return most - least >= kLargeDifference || (most - least >= kLeastDifference && least < most / 2);
}

Stragglers FindStragglers(const CauseInputs& inputs) {
  Stragglers stragglers;
  const auto total = static_cast<double>(LengthOf(inputs.span.spans));
  double least = 2, most = 0;
  uint32_t last_process = kNoProcess;
  for (uint32_t i = 0; i < inputs.timeline.threads.size() && total > 0; ++i) {
    const Thread& thread = inputs.timeline.threads[i];
    if (!thread.is_main || thread.is_line || thread.process == last_process) continue;
    last_process = thread.process;
    const ThreadTime time(inputs.timeline, inputs.classes, i, inputs.span.spans);
    double waited = 0;
    for (const WaitSlice& wait : time.waits()) {
      if (WaitsForOthers(inputs.tags, wait)) waited += static_cast<double>(wait.end_ps - wait.start_ps);
    }
    // Samples count as well: the process may wait inside a library that is not recorded.
    for (const auto& [stack, running] : time.running()) {
      const PythonTag tag = inputs.tags.TagOf(stack);
      if (tag == PythonTag::kBarrier || tag == PythonTag::kCollective)
        waited += static_cast<double>(running.off_cpu_ps + running.on_cpu_ps);
    }
    const double share = waited / total;
    if (share < kLeastWait) continue;
    ++stragglers.processes;
    most = std::max(most, share);
    if (share < least) {
      least = share;
      stragglers.slow_thread = i;
    }
  }
  stragglers.others_wait = most;
  stragglers.slow_waits = least;
  stragglers.found = stragglers.processes >= 2 && IsStraggler(most, least);
  return stragglers;
}

void AddPlacesOf(const Stragglers& stragglers, const CauseInputs& inputs, Verdict* verdict) {
  constexpr size_t kMostPlaces = 3;
  constexpr double kLeastOfPlace = 0.05;
  const Timeline& timeline = inputs.timeline;
  const uint32_t slow = stragglers.slow_thread;
  const ThreadTime time(timeline, inputs.classes, slow, inputs.span.spans);
  Account account(inputs.tags);
  for (const WaitSlice& wait : time.waits()) {
    if (wait.kind == WaitClass::kLock || wait.kind == WaitClass::kPool) continue;
    account.AddWait(StepPart::kRest, wait, wait.end_ps - wait.start_ps);
  }
  for (const auto& [stack, running] : time.running()) account.AddRunning(StepPart::kRest, stack, running.on_cpu_ps);
  const WhereRole role = slow == inputs.span.thread ? WhereRole::kSpends : WhereRole::kWaitedFor;
  for (const AccountRow& row : account.RowsOf([](const AccountRow&) { return true; })) {
    const double share = static_cast<double>(row.ps) / static_cast<double>(std::max<int64_t>(verdict->total_ps, 1));
    if (verdict->where.size() >= kMostPlaces || share < kLeastOfPlace) break;
    auto place = PlaceOfRow(timeline, inputs.tags, role, slow, row, verdict->total_ps);
    if (place.has_value()) verdict->where.push_back(*std::move(place));
  }
  verdict->facts.push_back(absl::StrFormat("process %d waits %s of the time for the others, another one %s",
                                           timeline.processes[timeline.threads[slow].process].pid,
                                           HumanPercent(stragglers.slow_waits), HumanPercent(stragglers.others_wait)));
}

}  // namespace tbprof
