// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/blockers.h"

#include <algorithm>
#include <utility>

namespace tbprof {
namespace {

constexpr double kLeastBusy = 0.25;
// A call that returns in this interval (3 ms before to 0.5 ms after the end of a wait) may have ended the wait.
constexpr int64_t kJustBeforePs = 3'000'000'000, kJustBehindPs = 500'000'000;
// Least share of waits that end together with a call of the candidate, after the share expected by chance is
// subtracted.
constexpr double kMoreThanChance = 0.3;
constexpr double kWithoutLink = 0.2;
// kBehindReaders: a thread that mostly reads may read what another process of the job sends. If one computes for this
// share of the time, that one is the more likely blocker. Of threads other than the main one it is not known what they
// read.
constexpr double kMostlyReads = 0.5, kComputes = 0.5;
constexpr size_t kMostCandidates = 512;
constexpr size_t kMostRows = 4;

bool IsIdle(const WaitSlice& wait) {
  switch (wait.kind) {
    case WaitClass::kLock:
    case WaitClass::kBarrier:
    case WaitClass::kPool:
    case WaitClass::kPoll:
      return true;
    case WaitClass::kSleep:
      // An event loop or a server that nobody asks.
      return wait.is_poll;
    case WaitClass::kGil:
    case WaitClass::kFile:
    case WaitClass::kFileRead:
    case WaitClass::kFileSync:
    case WaitClass::kTerminal:
    case WaitClass::kPipe:
    case WaitClass::kSocket:
    case WaitClass::kChild:
    case WaitClass::kGpuLaunch:
    case WaitClass::kGpuWait:
    case WaitClass::kGpuCopy:
    case WaitClass::kGpuCopyAsync:
    case WaitClass::kGpuMemory:
    case WaitClass::kGpuOther:
    case WaitClass::kCollective:
      break;
  }
  return false;
}

// The thread passes on what another process has made.
bool IsCourier(const PythonTags& tags, const WaitSlice& wait) {
  return (wait.kind == WaitClass::kPipe || wait.kind == WaitClass::kSocket || wait.kind == WaitClass::kFileRead) &&
         tags.TagOf(wait.stack) == PythonTag::kProcessGet;
}

// Share of the waits that end together with a call of the candidate (kJustBeforePs, kJustBehindPs), minus the share
// that is expected by chance.
double EndsTogether(const std::vector<WaitSlice>& waits, const std::vector<WaitSlice>& theirs, int64_t total_ps) {
  if (waits.empty() || theirs.empty()) return 0;
  std::vector<int64_t> ends;
  for (const WaitSlice& slice : theirs) {
    if (!IsIdle(slice) && slice.kind != WaitClass::kGil) ends.push_back(slice.call_end_ps);
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.empty()) return 0;
  size_t together = 0;
  for (const WaitSlice& wait : waits) {
    const auto end = std::ranges::lower_bound(ends, wait.end_ps - kJustBeforePs);
    together += end != ends.end() && *end <= wait.end_ps + kJustBehindPs;
  }
  const double by_chance = std::min(1.0, static_cast<double>(ends.size()) * (kJustBeforePs + kJustBehindPs) /
                                             static_cast<double>(std::max<int64_t>(total_ps, 1)));
  return static_cast<double>(together) / static_cast<double>(waits.size()) - by_chance;
}

bool FillsQueues(const Timeline& timeline, const PythonTags& tags, uint32_t thread) {
  const PythonThread* const python = timeline.python.OfThread(thread);
  const auto fills = [&](uint32_t stack) {
    const PythonTag tag = tags.TagOf(stack);
    return tag == PythonTag::kQueuePut || tag == PythonTag::kLoader;
  };
  if (python != nullptr && std::ranges::any_of(python->runs, [&](const PythonRun& run) { return fills(run.stack); }))
    return true;
  return std::ranges::any_of(timeline.threads[thread].events,
                             [&](const Event& event) { return event.python != 0 && fills(event.python); });
}

// An own frame, or without one a native function.
using Place = std::pair<uint32_t, StringId>;
Place PlaceIn(const AccountRow& row) { return {row.frame, row.frame == 0 ? row.call_site : 0}; }

struct Candidate {
  double score = 0, busy = 0;
  double works = 0, reads = 0;  // shares of the waits in which it is on a CPU, or reads
  std::vector<AccountRow> rows;
};

Candidate Judge(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                const NativePlaces& natives, uint32_t thread, const std::vector<WaitSlice>& waits,
                const std::vector<TimeSpan>& spans) {
  const int64_t total = LengthOf(spans);
  const ThreadTime time(timeline, classes, thread, spans);
  Candidate candidate;
  Account account(tags);
  int64_t waiting = 0, working = 0, reading = 0;
  for (const WaitSlice& slice : time.waits()) {
    if (IsIdle(slice) || IsCourier(tags, slice)) continue;
    // A thread that waits for the GIL counts as busy, but the wait for the GIL is not listed as a reason.
    if (slice.kind != WaitClass::kGil) account.AddWait(StepPart::kRest, slice, slice.end_ps - slice.start_ps);
    waiting += slice.end_ps - slice.start_ps;
    if (slice.kind == WaitClass::kPipe || slice.kind == WaitClass::kFileRead) reading += slice.end_ps - slice.start_ps;
  }
  for (const auto& [stack, running] : time.running()) {
    account.AddRunning(StepPart::kRest, stack, running.on_cpu_ps);
    working += running.on_cpu_ps;
  }
  for (const NativePlace& place : natives.In(thread, time.gaps())) {
    account.AddRunning(StepPart::kRest, 0, place.ps, kRunning, place.function);
    working += place.ps;
  }
  if (total <= 0) return candidate;
  candidate.busy = static_cast<double>(waiting + working) / static_cast<double>(total);
  candidate.works = static_cast<double>(working) / static_cast<double>(total);
  candidate.reads = static_cast<double>(reading) / static_cast<double>(total);
  const bool linked =
      EndsTogether(waits, time.waits(), total) >= kMoreThanChance || FillsQueues(timeline, tags, thread);
  // Computing is weighted higher than waiting without a link: a thread that computes is the more likely blocker.
  candidate.score = (static_cast<double>(working) + static_cast<double>(waiting) * (linked ? 1.5 : kWithoutLink)) /
                    static_cast<double>(total);
  candidate.rows = account.RowsOf([](const AccountRow&) { return true; });
  return candidate;
}

}  // namespace

bool IsWithin(const Timeline& timeline, uint32_t process, uint32_t ancestor) {
  for (size_t steps = 0; steps < timeline.processes.size() && process < timeline.processes.size(); ++steps) {
    if (process == ancestor) return true;
    if (timeline.processes[process].parent < 0) return false;
    process = static_cast<uint32_t>(timeline.processes[process].parent);
  }
  return false;
}

Blocker FindBlocker(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                    const NativePlaces& natives, uint32_t thread, const std::vector<WaitSlice>& waits,
                    BlockerScope scope) {
  Blocker blocker;
  std::vector<TimeSpan> spans;
  for (const WaitSlice& wait : waits) spans.push_back({wait.start_ps, wait.end_ps});
  spans = Merged(std::move(spans));
  if (spans.empty()) return blocker;
  const uint32_t process = timeline.threads[thread].process;
  double best = 0, most_work = kComputes;
  bool mostly_reads = false;
  Blocker computes;  // the busiest of the other processes
  size_t judged = 0;
  std::vector<std::pair<Place, double>> scores;  // by the first row
  for (uint32_t i = 0; i < timeline.threads.size() && judged < kMostCandidates; ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.is_line) continue;
    const bool same = other.process == process;
    if (same ? scope == BlockerScope::kDescendants : scope == BlockerScope::kThreads) continue;
    if (!same && !IsWithin(timeline, other.process, process)) continue;
    if (other.end_ps > 0 && other.end_ps <= spans.front().start_ps) continue;
    if (other.start_ps >= spans.back().end_ps) continue;
    ++judged;
    Candidate candidate = Judge(timeline, tags, classes, natives, i, waits, spans);
    if (candidate.rows.empty()) continue;
    scores.emplace_back(PlaceIn(candidate.rows.front()), candidate.busy);
    if (candidate.rows.size() > kMostRows) candidate.rows.resize(kMostRows);
    if (!same && candidate.works > most_work) {
      most_work = candidate.works;
      computes = {true, i, true, std::min(candidate.busy, 1.0), 1, candidate.rows};
    }
    if (candidate.score <= best || candidate.busy < kLeastBusy || candidate.score < kLeastBusy) continue;
    best = candidate.score;
    mostly_reads = same && candidate.reads >= kMostlyReads;
    blocker = {true, i, !same, std::min(candidate.busy, 1.0), 1, std::move(candidate.rows)};
  }
  if (scope == BlockerScope::kBehindReaders && mostly_reads && computes.found) blocker = std::move(computes);
  if (blocker.found) {
    const Place place = PlaceIn(blocker.rows.front());
    blocker.alike = static_cast<size_t>(std::ranges::count_if(
        scores, [&](const auto& score) { return score.first == place && score.second >= kLeastBusy / 2; }));
  }
  return blocker;
}

}  // namespace tbprof
