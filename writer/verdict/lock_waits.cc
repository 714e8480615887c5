// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/lock_waits.h"

#include <algorithm>
#include <map>

#include "writer/verdict/account.h"
#include "writer/verdict/cpu_split.h"

namespace tbprof {

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
  constexpr double kOften = 0.1, kMostly = 0.35;  // of two threads, each waits for less than half of its time
  double all = 0, at_locks = 0;                   // of many threads
  int64_t most = 0;
  Blocker found;
  size_t threads = 0, others = 0;  // `others` compute
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
    if (locks <= 0 || static_cast<double>(locks) < kOften * static_cast<double>(lives)) {
      const auto cpu = static_cast<double>(UsageOf(timeline, i, spans).cpu_ps);
      others += lives > 0 && cpu >= kOften * static_cast<double>(lives);
      continue;
    }
    ++threads;
    all += static_cast<double>(lives);
    at_locks += static_cast<double>(locks);
    if (locks <= most) continue;
    most = locks;
    found.thread = i;
    found.rows = account.RowsOf([](const AccountRow&) { return true; });
  }
  if (threads < 2 || threads < others || all <= 0 || at_locks < kMostly * all) return {};
  found.found = true;
  found.alike = threads;
  found.busy = std::min(at_locks / all, 1.0);
  found.at_locks = true;
  return found;
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

}  // namespace tbprof
