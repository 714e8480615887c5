// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/cause_choice.h"
#include "writer/verdict/place_of_row.h"

namespace tbprof {
namespace {

// Differences between the shares of waiting. From kLargeDifference on it does not matter how long all processes wait
// for each other.
constexpr double kLeastDifference = 0.15, kLargeDifference = 0.25;
// Least share of waiting: a process that only starts the others does not wait for them at a barrier.
constexpr double kLeastWait = 0.005;
// Least share of a place, and of a difference at it.
constexpr double kLeastOfPlace = 0.05;

bool WaitsForOthers(const PythonTags& tags, const WaitSlice& wait) {
  const PythonTag tag = tags.TagOf(wait.stack);
  return wait.kind == WaitClass::kCollective || tag == PythonTag::kBarrier || tag == PythonTag::kCollective;
}

// What the thread does, apart from its waits for other threads and processes.
std::vector<AccountRow> WorkOf(const CauseInputs& inputs, uint32_t thread) {
  const ThreadTime time(inputs.timeline, inputs.classes, thread, inputs.span.spans);
  Account account(inputs.tags);
  for (const WaitSlice& wait : time.waits()) {
    if (wait.kind == WaitClass::kLock || wait.kind == WaitClass::kPool) continue;
    account.AddWait(StepPart::kRest, wait, wait.end_ps - wait.start_ps);
  }
  for (const auto& [stack, running] : time.running()) account.AddRunning(StepPart::kRest, stack, running.on_cpu_ps);
  return account.RowsOf([](const AccountRow&) { return true; });
}

// A row of the slow process, and the mean of the same row in the others.
struct Beside {
  AccountRow row;
  double others_ps = 0;

  double Excess() const { return static_cast<double>(row.ps) - others_ps; }
};

// The row that differs most comes first.
std::vector<Beside> BesideOthers(const Stragglers& stragglers, const CauseInputs& inputs) {
  using Key = std::tuple<uint32_t, int, StringId>;
  const auto key_of = [&](const AccountRow& row) {
    return Key{inputs.tags.LineOf(row.frame), row.doing, row.frame == 0 ? row.call_site : 0};
  };
  std::map<Key, double> others;
  for (const uint32_t thread : stragglers.threads) {
    if (thread == stragglers.slow_thread) continue;
    for (const AccountRow& row : WorkOf(inputs, thread)) others[key_of(row)] += static_cast<double>(row.ps);
  }
  const auto count = static_cast<double>(std::max<size_t>(stragglers.threads.size(), 2) - 1);
  std::vector<Beside> rows;
  for (const AccountRow& row : WorkOf(inputs, stragglers.slow_thread)) {
    rows.push_back({row, others[key_of(row)] / count});
  }
  // Where nothing differs, the longest remains first.
  const auto total = static_cast<double>(LengthOf(inputs.span.spans));
  const bool differs =
      std::ranges::any_of(rows, [&](const Beside& row) { return row.Excess() >= kLeastOfPlace * total; });
  if (differs) std::ranges::stable_sort(rows, std::greater{}, &Beside::Excess);
  return rows;
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
    // The slowest of several ranks may find all others waiting.
    const bool is_rank = waited > 0 && inputs.timeline.processes[thread.process].world_size > 1;
    if (share < kLeastWait && !is_rank) continue;
    stragglers.threads.push_back(i);
    most = std::max(most, share);
    if (share < least) {
      least = share;
      stragglers.slow_thread = i;
    }
  }
  stragglers.others_wait = most;
  stragglers.slow_waits = least;
  stragglers.found = stragglers.threads.size() >= 2 && IsStraggler(most, least);
  return stragglers;
}

void AddPlacesOf(const Stragglers& stragglers, const CauseInputs& inputs, Verdict* verdict) {
  constexpr size_t kMostPlaces = 3;
  const Timeline& timeline = inputs.timeline;
  const uint32_t slow = stragglers.slow_thread;
  const WhereRole role = slow == inputs.span.thread ? WhereRole::kSpends : WhereRole::kWaitedFor;
  const auto total = static_cast<double>(std::max<int64_t>(verdict->total_ps, 1));
  for (const Beside& beside : BesideOthers(stragglers, inputs)) {
    const double share = static_cast<double>(beside.row.ps) / total, usual = beside.others_ps / total;
    if (verdict->where.size() >= kMostPlaces) break;
    if (share < kLeastOfPlace) continue;
    auto place = PlaceOfRow(timeline, inputs.tags, role, slow, beside.row, verdict->total_ps);
    if (!place.has_value()) continue;
    verdict->where.push_back(*std::move(place));
    // The others run the same program: where they spend as much is not why they wait.
    if (verdict->where.size() > 1 || share - usual < kLeastOfPlace) continue;
    verdict->facts.push_back(
        StrCat("it spends ", HumanPercent(share), " of the time at the first place, the others ", HumanPercent(usual)));
  }
  verdict->facts.push_back(absl::StrFormat("process %d waits %s of the time for the others, another one %s",
                                           timeline.processes[timeline.threads[slow].process].pid,
                                           HumanPercent(stragglers.slow_waits), HumanPercent(stragglers.others_wait)));
}

}  // namespace tbprof
