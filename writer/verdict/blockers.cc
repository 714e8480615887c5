// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/blockers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/cpu_split.h"

namespace tbprof {
namespace {

constexpr double kLeastBusy = 0.25;
// A child or a thread of a pool that is busy for less of the waits may take turns with others.
constexpr double kMostlyBusy = 0.6;
// A call that returns in this interval (3 ms before to 0.5 ms after the end of a wait) may have ended the wait.
constexpr int64_t kJustBeforePs = 3'000'000'000, kJustBehindPs = 500'000'000;
// Least share of waits that end together with a call of the candidate, after the share expected by chance is
// subtracted.
constexpr double kMoreThanChance = 0.3;
constexpr double kWithoutLink = 0.2;
// Share of the waits less that of the time between them in which a thread reads or sleeps: from it on it does so for
// the thread that waits. The time between them must have this length.
constexpr double kLeastContrast = 0.4;
constexpr int64_t kLeastBetweenPs = 20'000'000'000;
// kBehindReaders: a thread that mostly reads may read what another process of the job sends. If one computes for this
// share of the time, that one is the more likely blocker. Of threads other than the main one it is not known what they
// read.
constexpr double kMostlyReads = 0.5, kComputes = 0.5;
// Least share of the samples of a wait that show who holds the lock, and that it is the same thread.
constexpr double kLeastHeld = 0.3;
constexpr size_t kMostCandidates = 512;
constexpr size_t kMostRows = 4;

bool IsOfOneProcess(BlockerScope scope) { return scope == BlockerScope::kThreads || scope == BlockerScope::kPool; }

bool IsIdle(const PythonTags& tags, const WaitClasses& classes, const WaitSlice& wait) {
  // Nobody has come that it could serve.
  if (classes.IsAccept(wait.type) || tags.TagOf(wait.stack) == PythonTag::kServe) return true;
  switch (wait.kind) {
    case WaitClass::kLock:
    case WaitClass::kBarrier:
    case WaitClass::kPool:
      return true;
    case WaitClass::kPipe:
    case WaitClass::kSocket:
      // A loader's worker waits for the next task.
      return wait.is_poll && tags.TagOf(wait.stack) == PythonTag::kLoader && !tags.HasOwnFrame(wait.stack);
    case WaitClass::kPoll: {
      // With a timeout, a library polls for the answer to its request, also in the program's code that a loader calls.
      const PythonTag tag = tags.TagOf(wait.stack);
      return tag != PythonTag::kNetwork && (tag != PythonTag::kLoader || !tags.HasOwnFrame(wait.stack));
    }
    case WaitClass::kSleep:
      // An event loop or a server that nobody asks.
      return wait.is_poll;
    case WaitClass::kGil:
    case WaitClass::kFile:
    case WaitClass::kFileRead:
    case WaitClass::kFileSync:
    case WaitClass::kTerminal:
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

// A shell that waits for what it has started, or a program behind a pipe.
bool PassesOn(const WaitSlice& wait) { return wait.kind == WaitClass::kChild || wait.kind == WaitClass::kPipe; }

// The thread passes on what another process has made, or waits until another one has read what it sends. What is at the
// other end of a descriptor is not always known.
bool IsCourier(const PythonTags& tags, const WaitSlice& wait) {
  return (wait.kind == WaitClass::kPipe || wait.kind == WaitClass::kSocket || wait.kind == WaitClass::kFileRead ||
          wait.kind == WaitClass::kFile) &&
         tags.TagOf(wait.stack) == PythonTag::kProcessGet;
}

// Share of the waits in the candidate's life that end together with a call of it (kJustBeforePs, kJustBehindPs), minus
// the share that is expected by chance.
double EndsTogether(const PythonTags& tags, const WaitClasses& classes, const Thread& candidate,
                    const std::vector<WaitSlice>& waits, const std::vector<WaitSlice>& theirs) {
  if (waits.empty() || theirs.empty()) return 0;
  std::vector<int64_t> ends;
  for (const WaitSlice& slice : theirs) {
    if (!IsIdle(tags, classes, slice) && slice.kind != WaitClass::kGil) ends.push_back(slice.call_end_ps);
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.empty()) return 0;
  size_t together = 0, all = 0;
  int64_t total_ps = 0;
  for (const WaitSlice& wait : waits) {
    const bool is_over = candidate.end_ps > 0 && wait.end_ps - kJustBehindPs > candidate.end_ps;
    if (wait.end_ps < candidate.start_ps || is_over) continue;
    ++all;
    total_ps += wait.end_ps - std::max(wait.start_ps, candidate.start_ps);
    const auto end = std::ranges::lower_bound(ends, wait.end_ps - kJustBeforePs);
    together += end != ends.end() && *end <= wait.end_ps + kJustBehindPs;
  }
  const double by_chance = std::min(1.0, static_cast<double>(ends.size()) * (kJustBeforePs + kJustBehindPs) /
                                             static_cast<double>(std::max<int64_t>(total_ps, 1)));
  return all == 0 ? 0 : static_cast<double>(together) / static_cast<double>(all) - by_chance;
}

// The time of the thread between the first wait and the last that is not in them.
std::vector<TimeSpan> Between(const Thread& thread, const std::vector<TimeSpan>& waits) {
  std::vector<TimeSpan> between;
  for (size_t i = 1; i < waits.size(); ++i) {
    const int64_t from_ps = std::max(waits[i - 1].end_ps, thread.start_ps);
    const int64_t to_ps = thread.end_ps > 0 ? std::min(waits[i].start_ps, thread.end_ps) : waits[i].start_ps;
    if (from_ps < to_ps) between.push_back({from_ps, to_ps});
  }
  return between;
}

// Whether the thread sleeps or reads in the waits, and not between them.
bool AnswersWaits(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread,
                  const std::vector<TimeSpan>& waits, double share_of_waits) {
  if (share_of_waits < kLeastContrast) return false;
  const std::vector<TimeSpan> between = Between(timeline.threads[thread], waits);
  const ThreadTime time(timeline, classes, thread, between);
  int64_t length = LengthOf(between), busy = 0;
  for (const WaitSlice& slice : time.waits()) {
    // The GIL, which the waiting thread has by now, holds up a heartbeat, too.
    if (slice.kind == WaitClass::kGil) length -= slice.end_ps - slice.start_ps;
    if (IsIdle(tags, classes, slice) || IsCourier(tags, slice) || slice.kind == WaitClass::kGil) continue;
    busy += slice.end_ps - slice.start_ps;
  }
  if (length < kLeastBetweenPs) return false;
  return share_of_waits - static_cast<double>(busy) / static_cast<double>(length) >= kLeastContrast;
}

// The functions of the process which cleans up after multiprocessing: it reads until all others have ended.
std::vector<bool> TrackerFunctions(const Timeline& timeline) {
  std::vector<bool> are_of_tracker;
  for (const PythonFunction& function : timeline.python.functions) {
    const std::string_view file = timeline.strings.Get(function.file);
    are_of_tracker.push_back(timeline.strings.Get(function.name) == "main" &&
                             (file.ends_with("/resource_tracker.py") || file.ends_with("/semaphore_tracker.py")));
  }
  return are_of_tracker;
}

bool IsOfTracker(const Timeline& timeline, const std::vector<bool>& functions, uint32_t thread) {
  const PythonThread* const python = timeline.python.OfThread(thread);
  if (python == nullptr || !timeline.threads[thread].is_main) return false;
  if (std::ranges::find(functions, true) == functions.end()) return false;
  return std::ranges::any_of(python->tallies, [&](const PythonTally& tally) {
    for (uint32_t stack = tally.stack; stack != 0; stack = timeline.python.stacks[stack].parent) {
      if (functions[timeline.python.stacks[stack].function]) return true;
    }
    return false;
  });
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

// What threads that do the same have in common: their program, and a function of its own or without one a native one.
using Work = std::tuple<std::string_view, uint32_t, StringId>;
Work WorkOf(const Timeline& timeline, uint32_t thread, const AccountRow& row) {
  const bool is_python = row.frame != 0;
  return {timeline.processes[timeline.threads[thread].process].name,
          is_python ? timeline.python.stacks[row.frame].function : 0, is_python ? 0 : row.call_site};
}

// Threads with the same work.
struct Group {
  std::vector<uint32_t> alike;   // those that are busy for a share of the waits that counts
  double alike_busy = 0;         // sum of their shares
  size_t at_work = 0;            // those that work in the waits at all
  std::set<uint32_t> processes;  // of `at_work`
  std::vector<TimeSpan> work;    // the times in which any of them works
  double busiest_works = 0;      // share of the waits
  Blocker busiest;
};

struct Candidate {
  double score = 0, busy = 0;
  double for_gil = 0, queued = 0;  // parts of `busy`
  // Shares of the waits in which it is on a CPU, reads, or waits in an event loop for what others send.
  double works = 0, reads = 0, polls = 0;
  std::vector<AccountRow> rows;
  std::vector<TimeSpan> work;  // only for scopes in which threads take turns
};

Blocker BlockerOf(uint32_t thread, bool other_process, const Candidate& candidate) {
  Blocker blocker;
  blocker.found = true;
  blocker.thread = thread;
  blocker.other_process = other_process;
  blocker.busy = blocker.busiest = std::min(candidate.busy, 1.0);
  blocker.for_gil = std::min(candidate.for_gil, blocker.busy);
  blocker.queued = std::min(candidate.queued, blocker.busy);
  blocker.rows = candidate.rows;
  return blocker;
}

bool TakesTurns(BlockerScope scope) { return scope == BlockerScope::kDescendants || scope == BlockerScope::kPool; }

// Own frames at which a thread often runs. It is at work there, too, while it lacks a CPU or gets its pages.
std::set<uint32_t> FramesThatRun(const PythonThread& python, const PythonTags& tags) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> samples;  // all, on a CPU
  for (const PythonRun& run : python.runs) {
    auto& [all, on_cpu] = samples[tags.OwnFrameOf(run.stack)];
    all += run.samples;
    on_cpu += run.on_cpu;
  }
  std::set<uint32_t> frames;
  for (const auto& [frame, of_frame] : samples) {
    if (frame != 0 && of_frame.second * 4 >= of_frame.first) frames.insert(frame);
  }
  return frames;
}

// A thread that could run and has no CPU is held up by whatever has the CPUs, and not by what it does: it counts as at
// work.
// Returns the CPU time with that time, divided by the CPU time.
double WithQueue(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& gaps, int64_t cpu_ps) {
  if (cpu_ps <= 0) return 1;
  const int64_t delay_ps = UsageOf(timeline, thread, gaps).run_delay_ps;
  const int64_t off_cpu_ps = std::max<int64_t>(LengthOf(gaps) - cpu_ps, 0);
  return 1 + static_cast<double>(std::clamp<int64_t>(delay_ps, 0, off_cpu_ps)) / static_cast<double>(cpu_ps);
}

// Whether a thread waits for a CPU for much of the time in which it could run: samples show only when it had one.
bool IsOftenQueued(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& gaps) {
  constexpr int64_t kPart = 5;
  const UsageInSpans usage = UsageOf(timeline, thread, gaps);
  return usage.known && usage.run_delay_ps > usage.cpu_ps / kPart;
}

// The times of the gaps in which a thread had a CPU or waited for one, by the kernel's counts. When it did between two
// readings is not known: each thread has a place of its own there, so that threads which take turns add up.
std::vector<TimeSpan> RunnableTimes(const ThreadUsage& usage, const std::vector<TimeSpan>& gaps) {
  constexpr double kGoldenRatio = 0.6180339887;
  std::vector<TimeSpan> work;
  const double place = std::fmod(kGoldenRatio * static_cast<double>(usage.thread), 1.0);
  size_t at = 0;
  for (size_t i = 1; i < usage.points.size(); ++i) {
    const UsagePoint &from = usage.points[i - 1], &to = usage.points[i];
    const int64_t busy_ps = to.cpu_ps - from.cpu_ps + std::max<int64_t>(to.run_delay_ps - from.run_delay_ps, 0);
    if (busy_ps <= 0 || to.at_ps <= from.at_ps) continue;
    const double share = std::min(1.0, static_cast<double>(busy_ps) / static_cast<double>(to.at_ps - from.at_ps));
    ForCommon(gaps, &at, from.at_ps, to.at_ps, [&](int64_t start, int64_t end) {
      const auto length = static_cast<double>(end - start);
      const int64_t begin = start + static_cast<int64_t>((1 - share) * place * length);
      work.push_back({begin, begin + static_cast<int64_t>(share * length)});
    });
  }
  return work;
}

// The times of the gaps in which the thread works.
std::vector<TimeSpan> WorkOfThread(const Timeline& timeline, const PythonTags& tags, const NativePlaces& natives,
                                   uint32_t thread, const std::vector<TimeSpan>& gaps, BlockerScope scope) {
  std::vector<TimeSpan> work;
  size_t at = 0;
  const auto add = [&](int64_t start, int64_t end) {
    ForCommon(gaps, &at, start, end, [&](int64_t from, int64_t to) { work.push_back({from, to}); });
  };
  if (const PythonThread* const python = timeline.python.OfThread(thread); python != nullptr) {
    const std::set<uint32_t> frames =
        scope == BlockerScope::kPool ? FramesThatRun(*python, tags) : std::set<uint32_t>();
    // A thread that mostly lacks a CPU is seldom seen on one.
    const ThreadUsage* const usage = timeline.UsageOfThread(thread);
    if (scope == BlockerScope::kPool && frames.empty() && usage != nullptr && IsOftenQueued(timeline, thread, gaps)) {
      return RunnableTimes(*usage, gaps);
    }
    for (const PythonRun& run : python->runs) {
      const bool mostly = run.cpu_ps >= (run.to_ps - run.from_ps) / 2;
      if (scope == BlockerScope::kPool ? frames.contains(tags.OwnFrameOf(run.stack)) : mostly) {
        add(run.from_ps, run.to_ps);
      }
    }
  } else if (const ThreadUsage* const usage = timeline.UsageOfThread(thread);
             natives.Has(thread) && usage != nullptr && IsOftenQueued(timeline, thread, gaps)) {
    return RunnableTimes(*usage, gaps);
  } else if (natives.Has(thread)) {
    // Periods differ: that of a point may begin before the point before it.
    int64_t behind = INT64_MIN;
    for (const NativePoint& point : timeline.native.OfThread(thread)->points) {
      add(std::max(point.at_ps - PeriodPs(point), behind), point.at_ps);
      behind = point.at_ps;
    }
  }
  return work;
}

// The loop of a library that runs the program's function says less than a line of that function.
void ShowOwnFirst(const PythonTags& tags, std::vector<AccountRow>* rows) {
  constexpr int64_t kLeastPart = 3;
  // What a worker imports is not what it is waited for.
  const auto is_own = [&](const AccountRow& row) {
    return row.frame != 0 && tags.HasOwnFrame(row.frame) && row.tag != PythonTag::kImport;
  };
  if (rows->empty() || rows->front().doing >= 0 || rows->front().frame == 0 || is_own(rows->front())) return;
  const auto own = std::ranges::find_if(*rows, is_own);
  if (own == rows->end() || own->ps < rows->front().ps / kLeastPart) return;
  std::rotate(rows->begin(), own, std::next(own));
}

Candidate Judge(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                const NativePlaces& natives, uint32_t thread, const std::vector<WaitSlice>& waits,
                const std::vector<TimeSpan>& spans, BlockerScope scope) {
  const int64_t total = LengthOf(spans);
  const ThreadTime time(timeline, classes, thread, spans);
  Candidate candidate;
  Account account(tags);
  int64_t waiting = 0, for_gil = 0, working = 0, reading = 0, polling = 0;
  for (const WaitSlice& slice : time.waits()) {
    if (IsIdle(tags, classes, slice) || IsCourier(tags, slice)) continue;
    if (scope == BlockerScope::kDescendants && PassesOn(slice)) continue;
    // A thread that waits for the GIL counts as busy, but the wait for the GIL is not listed as a reason.
    if (slice.kind != WaitClass::kGil) account.AddWait(StepPart::kRest, slice, slice.end_ps - slice.start_ps);
    (slice.kind == WaitClass::kGil ? for_gil : waiting) += slice.end_ps - slice.start_ps;
    if (slice.is_poll) polling += slice.end_ps - slice.start_ps;
    if (slice.kind == WaitClass::kPipe || slice.kind == WaitClass::kFileRead) reading += slice.end_ps - slice.start_ps;
  }
  const std::vector<NativePlace> places = natives.In(thread, time.gaps());
  int64_t cpu = 0;
  for (const auto& [stack, running] : time.running()) cpu += running.cpu_ps;
  for (const NativePlace& place : places) cpu += place.ps;
  const double with_queue = WithQueue(timeline, thread, time.gaps(), cpu);
  for (const auto& [stack, running] : time.running()) {
    // At a line at which it often runs, a thread of a pool that has no CPU, or gets its pages, is at work nevertheless.
    const int64_t wall = running.on_cpu_ps + running.off_cpu_ps;
    const bool at_work_throughout = scope == BlockerScope::kPool && running.on_cpu_ps >= wall / 4;
    const int64_t at_work =
        at_work_throughout ? wall
                           : std::min(wall, static_cast<int64_t>(with_queue * static_cast<double>(running.cpu_ps)));
    account.AddRunning(StepPart::kRest, stack, at_work);
    working += at_work;
  }
  for (const NativePlace& place : places) {
    const auto at_work = static_cast<int64_t>(with_queue * static_cast<double>(place.ps));
    account.AddRunning(StepPart::kRest, 0, at_work, kRunning, place.function);
    working += at_work;
  }
  const double queued = std::max(0.0, (with_queue - 1) * static_cast<double>(cpu));
  if (total <= 0) return candidate;
  candidate.busy = static_cast<double>(waiting + for_gil + working) / static_cast<double>(total);
  candidate.for_gil = static_cast<double>(for_gil) / static_cast<double>(total);
  candidate.queued = queued / static_cast<double>(total);
  candidate.works = static_cast<double>(working) / static_cast<double>(total);
  candidate.reads = static_cast<double>(reading) / static_cast<double>(total);
  candidate.polls = static_cast<double>(polling) / static_cast<double>(total);
  const bool linked =
      EndsTogether(tags, classes, timeline.threads[thread], waits, time.waits()) >= kMoreThanChance ||
      FillsQueues(timeline, tags, thread) ||
      AnswersWaits(timeline, tags, classes, thread, spans, static_cast<double>(waiting) / static_cast<double>(total));
  // Computing is weighted higher than waiting without a link: a thread that computes is the more likely blocker.
  // A wait for the GIL counts little: whoever has the GIL meanwhile computes.
  candidate.score = (static_cast<double>(working) + static_cast<double>(for_gil) * kWithoutLink +
                     static_cast<double>(waiting) * (linked ? 1.5 : kWithoutLink)) /
                    static_cast<double>(total);
  candidate.rows = account.RowsOf([](const AccountRow&) { return true; });
  ShowOwnFirst(tags, &candidate.rows);
  if (!TakesTurns(scope)) return candidate;
  candidate.work = WorkOfThread(timeline, tags, natives, thread, time.gaps(), scope);
  if (!linked || scope != BlockerScope::kDescendants) return candidate;
  for (const WaitSlice& slice : time.waits()) {
    const bool passes = IsIdle(tags, classes, slice) || IsCourier(tags, slice) || PassesOn(slice);
    if (!passes && slice.kind != WaitClass::kGil) candidate.work.push_back({slice.start_ps, slice.end_ps});
  }
  return candidate;
}

// Whether two of the threads lived at the same time: else one replaces the other, as a loader's worker in each epoch.
bool LiveTogether(const Timeline& timeline, std::vector<uint32_t> threads) {
  std::ranges::sort(threads, {}, [&](uint32_t thread) { return timeline.threads[thread].start_ps; });
  int64_t end_ps = INT64_MIN;
  for (const uint32_t i : threads) {
    const Thread& thread = timeline.threads[i];
    if (thread.start_ps < end_ps) return true;
    end_ps = thread.end_ps > 0 ? thread.end_ps : INT64_MAX;
  }
  return false;
}

// Of children that are started one after the other, and of threads of a pool, each takes a small part of the waits.
// The part of a group is that in which any of them works: concurrent ones do not count twice.
Blocker BusiestGroup(std::map<Work, Group>* groups, int64_t total_ps) {
  Blocker best;
  for (auto& [work, group] : *groups) {
    if (group.at_work < 2 || total_ps <= 0) continue;
    const double busy = static_cast<double>(LengthOf(Merged(std::move(group.work)))) / static_cast<double>(total_ps);
    if (busy < kLeastBusy || busy <= best.busy) continue;
    best = group.busiest;
    best.busy = std::min(busy, 1.0);
    best.for_gil = best.queued = 0;  // not in `busy`
    best.alike = best.other_process ? group.processes.size() : group.at_work;
    best.together = true;
  }
  return best;
}

// The threads that may be waited for. If there are too many, those that used most CPU time.
std::vector<uint32_t> ThreadsToJudge(const Timeline& timeline, uint32_t thread, TimeSpan waits, BlockerScope scope) {
  std::vector<uint32_t> threads;
  const std::vector<bool> trackers = TrackerFunctions(timeline);
  const uint32_t process = timeline.threads[thread].process;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& other = timeline.threads[i];
    if (i == thread || other.is_line) continue;
    const bool same = other.process == process;
    if (same ? scope == BlockerScope::kDescendants : IsOfOneProcess(scope)) continue;
    if (!same && !IsWithin(timeline, other.process, process)) continue;
    if (other.end_ps > 0 && other.end_ps <= waits.start_ps) continue;
    if (other.start_ps >= waits.end_ps || (!same && IsOfTracker(timeline, trackers, i))) continue;
    threads.push_back(i);
  }
  if (threads.size() <= kMostCandidates) return threads;
  const auto used_ps = [&](uint32_t of) {
    const ThreadUsage* const usage = timeline.UsageOfThread(of);
    return usage == nullptr || usage->points.empty() ? 0 : usage->points.back().cpu_ps;
  };
  std::ranges::nth_element(threads, threads.begin() + kMostCandidates, std::greater<>(), used_ps);
  threads.resize(kMostCandidates);
  std::ranges::sort(threads);
  return threads;
}

// The thread that samples of the waits show as the holder of the lock, and the share of those samples.
struct LockHolder {
  uint32_t thread = 0;
  double share = 0;
};
LockHolder FindLockHolder(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& waits) {
  LockHolder holder;
  const ThreadBlocked* const blocked = timeline.BlockedOfThread(thread);
  if (blocked == nullptr) return holder;
  std::map<uint32_t, uint64_t> samples;
  uint64_t all = 0;
  size_t at = 0;
  for (const BlockedRun& run : blocked->runs) {
    bool within = false;
    ForCommon(waits, &at, run.first_ps, run.last_ps + 1, [&](int64_t, int64_t) { within = true; });
    if (!within) continue;
    all += run.samples;
    if (run.holder < timeline.threads.size() && run.holder != thread) samples[run.holder] += run.samples;
  }
  const auto most = std::ranges::max_element(samples, {}, [](const auto& entry) { return entry.second; });
  if (most == samples.end() || all == 0) return holder;
  return {most->first, static_cast<double>(most->second) / static_cast<double>(all)};
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
  const std::vector<TimeSpan> spans = SpansOf(waits);
  if (spans.empty()) return blocker;
  const uint32_t process = timeline.threads[thread].process;
  if (const LockHolder holder = FindLockHolder(timeline, thread, spans);
      holder.share >= kLeastHeld && scope != BlockerScope::kDescendants) {
    Candidate candidate = Judge(timeline, tags, classes, natives, holder.thread, waits, spans, scope);
    if (candidate.rows.size() > kMostRows) candidate.rows.resize(kMostRows);
    if (!candidate.rows.empty()) {
      blocker = BlockerOf(holder.thread, false, candidate);
      blocker.holds_lock = holder.share;
      return blocker;
    }
  }
  double best = 0, most_work = kComputes;
  bool mostly_reads = false;
  Blocker computes;  // the busiest of the other processes
  std::map<Work, Group> groups;
  for (const uint32_t i : ThreadsToJudge(timeline, thread, {spans.front().start_ps, spans.back().end_ps}, scope)) {
    const bool same = timeline.threads[i].process == process;
    Candidate candidate = Judge(timeline, tags, classes, natives, i, waits, spans, scope);
    if (candidate.rows.empty()) continue;
    if (scope == BlockerScope::kPool && candidate.rows.front().frame == 0 && !natives.Has(i)) continue;
    if (candidate.rows.size() > kMostRows) candidate.rows.resize(kMostRows);
    Group& group = groups[WorkOf(timeline, i, candidate.rows.front())];
    if (candidate.busy >= kLeastBusy / 2) {
      group.alike.push_back(i);
      group.alike_busy += candidate.busy;
    }
    if (!candidate.work.empty()) {
      ++group.at_work;
      group.processes.insert(timeline.threads[i].process);
      group.work.insert(group.work.end(), candidate.work.begin(), candidate.work.end());
      if (!group.busiest.found || candidate.works > group.busiest_works) {
        group.busiest_works = candidate.works;
        group.busiest = BlockerOf(i, !same, candidate);
      }
    }
    if (!same && candidate.works > most_work) {
      most_work = candidate.works;
      computes = BlockerOf(i, true, candidate);
    }
    if (candidate.score <= best || candidate.busy < kLeastBusy || candidate.score < kLeastBusy) continue;
    best = candidate.score;
    const bool serves = candidate.polls >= kLeastBusy && candidate.works < kLeastBusy;
    mostly_reads = serves || (same && candidate.reads >= kMostlyReads);
    blocker = BlockerOf(i, !same, candidate);
  }
  if (scope == BlockerScope::kBehindReaders && mostly_reads && computes.found) blocker = std::move(computes);
  if (TakesTurns(scope) && (!blocker.found || blocker.busy < kMostlyBusy)) {
    Blocker together = BusiestGroup(&groups, LengthOf(spans));
    if (together.found && (!blocker.found || together.busy > blocker.busy)) return together;
  }
  if (!blocker.found) return blocker;
  const Group& group = groups[WorkOf(timeline, blocker.thread, blocker.rows.front())];
  blocker.alike = group.alike.size();
  blocker.in_turn = blocker.alike > 1 && !LiveTogether(timeline, group.alike);
  if (blocker.in_turn) blocker.busy = std::min(1.0, group.alike_busy);
  return blocker;
}

std::string FactOfBlocker(const Blocker& blocker) {
  const size_t more = blocker.alike - 1;
  if (blocker.holds_gil) {
    return absl::StrFormat("%s the GIL in %s of the samples that show who does",
                           more > 0 ? StrCat("these ", blocker.alike, " threads hold") : "that thread holds",
                           HumanPercent(blocker.busy));
  }
  if (blocker.at_locks) {
    return absl::StrFormat("these %d threads wait for locks in %s of their time", blocker.alike,
                           HumanPercent(blocker.busy));
  }
  if (blocker.holds_lock > 0) {
    return absl::StrFormat("that thread holds the lock in %s of the samples of the wait",
                           HumanPercent(blocker.holds_lock));
  }
  if (blocker.together && more > 0) {
    return absl::StrFormat("these %d %s work for %s of the wait", blocker.alike,
                           blocker.other_process ? "processes" : "threads", HumanPercent(blocker.busy));
  }
  if (blocker.in_turn) {
    return absl::StrFormat("these %d %s, one after the other, work, sleep or read for %s of the wait", blocker.alike,
                           blocker.other_process ? "processes" : "threads", HumanPercent(blocker.busy));
  }
  constexpr double kLeastForGil = 0.05, kLeastQueued = 0.1;
  const bool wants_gil = blocker.for_gil >= kLeastForGil;
  const double queued = std::min(blocker.queued, blocker.busy - (wants_gil ? blocker.for_gil : 0));
  return absl::StrFormat("that %s works, sleeps or reads for %s of the wait%s%s%s",
                         blocker.other_process ? "process" : "thread",
                         HumanPercent(blocker.busy - (wants_gil ? blocker.for_gil : 0)),
                         queued >= kLeastQueued ? StrCat(" (", HumanPercent(queued), " without a CPU)") : "",
                         wants_gil ? StrCat(" and waits for the GIL for ", HumanPercent(blocker.for_gil)) : "",
                         more == 0 ? "" : StrCat(more == 1 ? ", as does " : ", as do ", more, " more"));
}

}  // namespace tbprof
