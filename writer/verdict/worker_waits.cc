// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/worker_waits.h"

#include <algorithm>
#include <map>
#include <set>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/account.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/place_of_row.h"
#include "writer/verdict/step_span.h"

namespace tbprof {

WorkerWaits WaitsOfWorkers(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                           const std::vector<TimeSpan>& spans) {
  // Of a library's threads that only wait, the locks are more than this many times the running time.
  constexpr int64_t kOnlyWaits = 20;
  int64_t all = 0, for_gil = 0, for_locks = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.process != timeline.threads[thread].process || other.is_line) continue;
    const ThreadTime time(timeline, classes, i, spans);
    int64_t ran = 0, gil = 0, locks = 0, waited = 0;
    for (const auto& [stack, running] : time.running()) ran += running.on_cpu_ps;
    for (const WaitSlice& wait : time.waits()) {
      const int64_t length = wait.end_ps - wait.start_ps;
      if (wait.kind == WaitClass::kGil) gil += length;
      if (wait.kind == WaitClass::kLock) locks += length;
      waited += length;
    }
    if (ran * kOnlyWaits < locks) continue;
    all += ran + waited;
    for_gil += gil;
    for_locks += locks;
  }
  if (all <= 0) return {};
  const auto share = [all](int64_t part) { return static_cast<double>(part) / static_cast<double>(all); };
  return {share(for_gil), share(for_locks)};
}

std::optional<Where> WorkForClients(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                    uint32_t thread, const std::vector<TimeSpan>& spans) {
  constexpr double kLeastOfPlace = 0.25;
  Account account(tags);
  size_t threads = 0;
  uint32_t first = thread;
  for (const PythonThread& python : timeline.python.threads) {
    const uint32_t other = python.thread;
    if (other >= timeline.threads.size() || other == thread) continue;
    if (timeline.threads[other].process != timeline.threads[thread].process) continue;
    const ThreadTime time(timeline, classes, other, spans);
    for (const WaitSlice& wait : time.waits()) {
      if (tags.TagOf(wait.stack) == PythonTag::kQueueGet) continue;
      account.AddWait(StepPart::kRest, wait, wait.end_ps - wait.start_ps);
    }
    for (const auto& [stack, running] : time.running()) account.AddRunning(StepPart::kRest, stack, running.on_cpu_ps);
    if (threads++ == 0) first = other;
  }
  const std::vector<AccountRow> rows = account.RowsOf([](const AccountRow&) { return true; });
  int64_t all_ps = 0;
  for (const AccountRow& row : rows) all_ps += row.ps;
  if (all_ps <= 0 || static_cast<double>(rows.front().ps) < kLeastOfPlace * static_cast<double>(all_ps)) return {};
  std::optional<Where> where = PlaceOfRow(timeline, tags, WhereRole::kWaitedFor, first, rows.front(), all_ps);
  if (where.has_value()) where->alike = threads - 1;
  return where;
}

namespace {

// A fork child of a loader has its first batch after some milliseconds. One that lives so short a time does little but
// start and end.
constexpr int64_t kForkedStartPs = 15'000'000'000, kShortLifePs = 200'000'000'000;

// The starts of fork children of `own` within `spans`, if some began when others had ended: of those without a sample,
// and of those with a short life.
std::vector<TimeSpan> ForkedStarts(const Timeline& timeline, uint32_t own, const std::vector<TimeSpan>& spans) {
  constexpr size_t kFewest = 4;
  std::set<uint32_t> sampled;
  for (const PythonThread& python : timeline.python.threads) {
    if (python.thread < timeline.threads.size() && !python.runs.empty()) {
      sampled.insert(timeline.threads[python.thread].process);
    }
  }
  std::vector<TimeSpan> starts;
  int64_t first_end_ps = INT64_MAX, last_start_ps = 0;
  for (uint32_t i = 0; i < timeline.processes.size() && !spans.empty(); ++i) {
    const Process& process = timeline.processes[i];
    if (!process.forked || process.parent != static_cast<int>(own) || process.end_ps <= process.start_ps) continue;
    if (process.end_ps < spans.front().start_ps || process.start_ps > spans.back().end_ps) continue;
    const bool is_short = process.end_ps - process.start_ps < kShortLifePs;
    if (!is_short && sampled.contains(i)) continue;
    starts.push_back({process.start_ps, is_short ? process.end_ps : process.start_ps + kForkedStartPs});
    last_start_ps = std::max(last_start_ps, process.start_ps);
    first_end_ps = std::min(first_end_ps, process.end_ps);
  }
  const bool again = starts.size() >= kFewest && last_start_ps >= first_end_ps;
  return again ? starts : std::vector<TimeSpan>();
}

}  // namespace

double ShareOfStarts(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                     const std::vector<TimeSpan>& spans) {
  std::vector<TimeSpan> starts;
  const uint32_t own = timeline.threads[thread].process;
  int64_t first_end_ps = INT64_MAX, last_start_ps = 0;
  for (const PythonThread& python : timeline.python.threads) {
    if (python.thread >= timeline.threads.size()) continue;
    const Thread& of = timeline.threads[python.thread];
    const Process& process = timeline.processes[of.process];
    if (!of.is_main || of.process == own || !IsWithin(timeline, of.process, own)) continue;
    const auto begun =
        std::ranges::find_if(python.runs, [&](const PythonRun& run) { return tags.IsOfWorker(run.stack); });
    if (begun == python.runs.end()) continue;
    starts.push_back({process.start_ps, begun->from_ps});
    last_start_ps = std::max(last_start_ps, process.start_ps);
    if (process.end_ps > process.start_ps) first_end_ps = std::min(first_end_ps, process.end_ps);
  }
  if (last_start_ps < first_end_ps) starts.clear();
  for (const TimeSpan& start : ForkedStarts(timeline, own, spans)) starts.push_back(start);
  std::erase_if(starts, [](const TimeSpan& start) { return start.end_ps <= start.start_ps; });
  starts = Merged(std::move(starts));
  int64_t common = 0;
  size_t at = 0;
  for (const TimeSpan& wait : spans) {
    ForCommon(starts, &at, wait.start_ps, wait.end_ps, [&](int64_t from, int64_t to) { common += to - from; });
  }
  const int64_t all = LengthOf(spans);
  return all > 0 ? static_cast<double>(common) / static_cast<double>(all) : 0;
}

std::vector<uint16_t> LocksAmong(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                                 const std::vector<WaitSlice>& waits) {
  std::map<uint16_t, std::map<uint64_t, int64_t>> objects;  // by type
  for (const WaitSlice& wait : waits) {
    if (wait.kind == WaitClass::kLock && classes.MayBeOwned(wait.type)) {
      objects[wait.type][wait.object] += wait.end_ps - wait.start_ps;
    }
  }
  std::vector<uint16_t> types;
  for (const auto& [type, of_type] : objects) {
    const auto most = std::ranges::max_element(of_type, {}, [](const auto& entry) { return entry.second; });
    if (OthersThatWaitFor(timeline, classes, thread, most->first) > 0) types.push_back(type);
  }
  return types;
}

Blocker ThreadsAtLocks(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread,
                       const std::vector<TimeSpan>& spans) {
  constexpr double kOften = 0.1, kMostly = 0.5;
  int64_t all = 0, at_locks = 0, most = 0;
  Blocker found;
  size_t threads = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.process != timeline.threads[thread].process || other.is_line) continue;
    const ThreadTime time(timeline, classes, i, spans);
    Account account(tags);
    int64_t lives = 0, locks = 0;
    for (const TimeSpan& span : spans) {
      const int64_t end = other.end_ps > 0 ? std::min(other.end_ps, span.end_ps) : span.end_ps;
      lives += std::max<int64_t>(0, end - std::max(other.start_ps, span.start_ps));
    }
    for (const WaitSlice& wait : time.waits()) {
      if (!classes.IsOwned(wait.type)) continue;
      locks += wait.end_ps - wait.start_ps;
      account.AddWait(StepPart::kLocks, wait, wait.end_ps - wait.start_ps);
    }
    if (locks <= 0 || static_cast<double>(locks) < kOften * static_cast<double>(lives)) continue;
    ++threads;
    all += lives;
    at_locks += locks;
    if (locks <= most) continue;
    most = locks;
    found.thread = i;
    found.rows = account.RowsOf([](const AccountRow&) { return true; });
  }
  if (threads < 2 || static_cast<double>(at_locks) < kMostly * static_cast<double>(all)) return {};
  found.found = true;
  found.alike = threads;
  found.busy = static_cast<double>(at_locks) / static_cast<double>(all);
  found.at_locks = true;
  return found;
}

std::string FactOfWorkerWaits(const WorkerWaits& shares) {
  std::string waits;
  for (const auto& [share, what] : {std::pair{shares.gil, " for the GIL"}, std::pair{shares.locks, " for locks"}}) {
    if (share >= 0.05) StrAppend(&waits, waits.empty() ? " " : " and ", HumanPercent(share), what);
  }
  return StrCat("its threads wait", waits);
}

bool AreOwned(const WaitClasses& classes, const std::vector<WaitSlice>& waits) {
  return std::ranges::all_of(waits, [&](const WaitSlice& wait) { return classes.IsOwned(wait.type); });
}

bool AreForLocks(const WaitClasses& classes, const std::vector<WaitSlice>& waits) {
  int64_t all = 0, for_locks = 0;
  for (const WaitSlice& wait : waits) {
    all += wait.end_ps - wait.start_ps;
    if (classes.IsForLock(wait)) for_locks += wait.end_ps - wait.start_ps;
  }
  return for_locks >= all / 2;
}

bool IsOfMultiprocessing(const Timeline& timeline, const PythonTags& tags, uint32_t thread) {
  const PythonThread* const python = timeline.python.OfThread(thread);
  return python != nullptr &&
         std::ranges::any_of(python->runs, [&](const PythonRun& run) { return tags.IsOfWorker(run.stack); });
}

size_t OthersThatWaitFor(const Timeline& timeline, const WaitClasses& classes, uint32_t thread, uint64_t object) {
  constexpr size_t kFewestWaits = 5;  // fewer are chance
  size_t others = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (i == thread || timeline.threads[i].process != timeline.threads[thread].process) continue;
    size_t waits = 0;
    for (const Event& event : timeline.threads[i].events) {
      WaitClass kind;
      waits += event.object == object && classes.Classify(event, &kind) && kind == WaitClass::kLock;
    }
    others += waits >= kFewestWaits;
  }
  return others;
}

}  // namespace tbprof
