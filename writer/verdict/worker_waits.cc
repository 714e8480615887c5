// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/worker_waits.h"

#include <algorithm>

#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/account.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/place_of_row.h"

namespace tbprof {
namespace {

// Whether a thread of Python waits in a library, or for others, and not for a lock of the program: `with lock:` waits
// in the program's own line.
bool IsForWork(const PythonTags& tags, uint32_t stack) {
  return stack != 0 &&
         (tags.TagOf(stack) != PythonTag::kNone || !tags.HasOwnFrame(stack) || tags.OwnFrameOf(stack) != stack);
}

// Whether a call ends within the spans, in order and disjoint.
bool EndsWithin(const std::vector<TimeSpan>& spans, int64_t end_ps) {
  const auto span = std::ranges::lower_bound(spans, end_ps, {}, &TimeSpan::end_ps);
  return span != spans.end() && span->start_ps < end_ps;
}

}  // namespace

WorkerWaits WaitsOfWorkers(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                           uint32_t thread, const std::vector<TimeSpan>& spans) {
  // Of a library's threads that only wait, the locks are more than this many times the running time.
  constexpr int64_t kOnlyWaits = 20;
  double all = 0, for_gil = 0, for_locks = 0;  // of many threads
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.process != timeline.threads[thread].process || other.is_line) continue;
    const ThreadTime time(timeline, classes, i, spans);
    int64_t ran = 0, gil = 0, locks = 0, waited = 0;
    for (const auto& [stack, running] : time.running()) ran += running.on_cpu_ps;
    for (const WaitSlice& wait : time.waits()) {
      const int64_t length = wait.end_ps - wait.start_ps;
      if (wait.kind == WaitClass::kLock && IsForWork(tags, wait.stack)) continue;
      // queue.SimpleQueue is no Python code: a wait that lasts until the thread which waits for the workers goes on may
      // be for the work that it hands out.
      if (wait.kind == WaitClass::kLock && !EndsWithin(spans, wait.call_end_ps)) continue;
      if (wait.kind == WaitClass::kGil) gil += length;
      if (wait.kind == WaitClass::kLock) locks += length;
      waited += length;
    }
    if (ran < locks / kOnlyWaits) continue;
    all += static_cast<double>(ran) + static_cast<double>(waited);
    for_gil += static_cast<double>(gil);
    for_locks += static_cast<double>(locks);
  }
  if (all <= 0) return {};
  return {for_gil / all, for_locks / all};
}

std::optional<Where> WorkForClients(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                    uint32_t thread, const std::vector<TimeSpan>& spans) {
  constexpr double kLeastOfPlace = 0.25;
  Account account(tags);
  size_t threads = 0;
  uint32_t busiest = thread;
  int64_t most = 0;
  for (const PythonThread& python : timeline.python.threads) {
    const uint32_t other = python.thread;
    if (other >= timeline.threads.size() || other == thread) continue;
    if (timeline.threads[other].process != timeline.threads[thread].process) continue;
    const ThreadTime time(timeline, classes, other, spans);
    int64_t works = 0;
    for (const WaitSlice& wait : time.waits()) {
      const PythonTag tag = tags.TagOf(wait.stack);
      if (tag == PythonTag::kQueueGet || tag == PythonTag::kServe) continue;
      account.AddWait(StepPart::kRest, wait, wait.end_ps - wait.start_ps);
      AddSaturating(&works, wait.end_ps - wait.start_ps);
    }
    for (const auto& [stack, running] : time.running()) {
      if (tags.TagOf(stack) == PythonTag::kServe) continue;
      account.AddRunning(StepPart::kRest, stack, running.on_cpu_ps);
      AddSaturating(&works, running.on_cpu_ps);
    }
    if (works <= 0) continue;
    ++threads;
    if (works > most) busiest = other;
    most = std::max(most, works);
  }
  const std::vector<AccountRow> rows = account.RowsOf([](const AccountRow&) { return true; });
  int64_t all_ps = 0;
  for (const AccountRow& row : rows) all_ps += row.ps;
  if (all_ps <= 0 || static_cast<double>(rows.front().ps) < kLeastOfPlace * static_cast<double>(all_ps)) return {};
  std::optional<Where> where = PlaceOfRow(timeline, tags, WhereRole::kWaitedFor, busiest, rows.front(), all_ps);
  if (where.has_value()) where->alike = threads - 1;
  return where;
}

std::string FactOfWorkerWaits(const WorkerWaits& shares) {
  std::string waits;
  for (const auto& [share, what] : {std::pair{shares.gil, " for the GIL"}, std::pair{shares.locks, " for locks"}}) {
    if (share >= 0.05) StrAppend(&waits, waits.empty() ? " " : " and ", HumanPercent(share), what);
  }
  return StrCat("its threads wait", waits);
}

}  // namespace tbprof
