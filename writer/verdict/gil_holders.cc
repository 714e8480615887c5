// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/gil_holders.h"

#include <algorithm>
#include <map>

namespace tbprof {
namespace {

// A share of fewer samples is too inexact.
constexpr size_t kFewestSamples = 20;

// Threads that hold it longest in the same function.
struct Group {
  std::map<uint32_t, int64_t> threads;  // time for which each holds the GIL
  int64_t ps = 0;
};

}  // namespace

Blocker FindGilHolder(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                      const std::vector<WaitSlice>& waits) {
  const std::vector<TimeSpan> spans = SpansOf(waits);
  const uint32_t process = timeline.threads[thread].process;
  std::map<uint32_t, Account> accounts;  // by thread
  size_t samples = 0, at = 0;
  int64_t total_ps = 0;
  for (const GilHolder& holder : timeline.python.holders) {
    while (at < spans.size() && spans[at].end_ps <= holder.at_ps) ++at;
    if (at == spans.size()) break;
    // A sample of the waiting thread itself is from the end of its wait.
    if (holder.at_ps < spans[at].start_ps || holder.thread == thread) continue;
    if (timeline.threads[holder.thread].process != process) continue;
    accounts.try_emplace(holder.thread, tags).first->second.AddRunning(StepPart::kRest, holder.stack, holder.period_ps);
    ++samples;
    total_ps += holder.period_ps;
  }
  if (samples < kFewestSamples) return {};
  const auto all = [](const AccountRow&) { return true; };
  std::map<uint32_t, Group> groups;  // by function
  for (const auto& [of, account] : accounts) {
    const std::vector<AccountRow> rows = account.RowsOf(all);
    const uint32_t frame = rows.empty() ? 0 : rows.front().frame;
    Group& group = groups[frame == 0 ? UINT32_MAX : timeline.python.stacks[frame].function];
    for (const AccountRow& row : rows) group.threads[of] += row.ps;
    group.ps += group.threads[of];
  }
  const auto& [function, most] =
      *std::ranges::max_element(groups, {}, [](const auto& entry) { return entry.second.ps; });
  const auto longest = std::ranges::max_element(most.threads, {}, [](const auto& entry) { return entry.second; });
  Blocker blocker;
  blocker.found = true;
  blocker.thread = longest->first;
  blocker.busy = static_cast<double>(most.ps) / static_cast<double>(total_ps);
  blocker.alike = most.threads.size();
  blocker.held = std::min(1.0, static_cast<double>(total_ps) / static_cast<double>(LengthOf(spans)));
  blocker.holds_gil = true;
  blocker.rows = accounts.at(longest->first).RowsOf(all);
  return blocker;
}

}  // namespace tbprof
