// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/sample_cpu.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "writer/base/text_match.h"
#include "writer/timeline/time_span.h"
#include "writer/timeline/wait_sites.h"

namespace tbprof {
namespace {

int64_t Common(const PythonRun& run, int64_t from_ps, int64_t to_ps) {
  return CommonPs({run.from_ps, run.to_ps}, {from_ps, to_ps});
}

// Waits in which a thread surely does not run. Reads copy memory, and a fork copies tables of pages.
bool IsOffCpu(const EventType& type) {
  switch (type.family) {
    case EventFamily::kLock:
    case EventFamily::kThread:
    case EventFamily::kSleep:
      return true;
    case EventFamily::kProcess:
      return StartsWithAny(type.name, {"wait"});
    case EventFamily::kIo:
      return ContainsAny(type.name, {"poll", "select", "accept"});
    case EventFamily::kGpu:
    case EventFamily::kMemory:
    case EventFamily::kStep:
    case EventFamily::kAnnotation:
    case EventFamily::kOther:
      break;
  }
  return false;
}

std::vector<TimeSpan> WaitsOf(const Timeline& timeline, const std::vector<bool>& are_waits, uint32_t thread) {
  std::vector<TimeSpan> waits;
  if (thread >= timeline.threads.size()) return waits;
  ForEachCall(timeline.threads[thread], [&](const Event& event) {
    if (event.duration_ps <= 0 || event.type >= are_waits.size() || !are_waits[event.type]) return;
    waits.push_back({event.start_ps, event.start_ps + event.duration_ps});
  });
  return Merged(std::move(waits));
}

// The part of the time of a run on the CPU, by its samples: of all, and of those that were not taken in waits. A thread
// that wakes from a wait had run since the sample before, but not at the line where it waits again.
struct RunParts {
  double all = 0, between = 0;
};

std::vector<RunParts> PartsOf(const std::vector<PythonRun>& runs, const std::vector<TimeSpan>& waits) {
  std::vector<RunParts> parts;
  size_t at = 0;
  for (const PythonRun& run : runs) {
    const int64_t end = std::max(run.last_ps, run.first_ps) + 1;
    int64_t waited = 0;
    ForCommon(waits, &at, run.first_ps, end, [&](int64_t from, int64_t to) { waited += to - from; });
    const double all = static_cast<double>(run.on_cpu) / std::max<uint32_t>(run.samples, 1);
    parts.push_back({all, all * (1 - static_cast<double>(waited) / static_cast<double>(end - run.first_ps))});
  }
  return parts;
}

// Distributes the CPU time between two points of usage (a window) to the runs of a thread.
class CpuOfRuns {
 public:
  CpuOfRuns(const std::vector<PythonRun>& runs, const std::vector<TimeSpan>& waits, TimeSpan measured)
      : runs_(runs), parts_(PartsOf(runs, waits)), cpu_(runs.size()) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const int64_t outside = runs[i].to_ps - runs[i].from_ps - Common(runs[i], measured.start_ps, measured.end_ps);
      cpu_[i] = static_cast<double>(outside) * parts_[i].all;
    }
  }

  // In order of time. CPU time that is more than the samples outside of waits stand for goes to the next such samples.
  void Add(TimeSpan window, int64_t cpu_ps) {
    constexpr size_t kMostPending = 20;
    if (!HasRuns(window)) return;
    pending_.push_back({window, static_cast<double>(cpu_ps)});
    double given = Distribute(window, PendingCpu(), &RunParts::between, &first_);
    for (Window& from : pending_) {
      const double taken = std::min(from.cpu_ps, given);
      from.cpu_ps -= taken;
      given -= taken;
    }
    std::erase_if(pending_, [](const Window& of) { return of.cpu_ps < 1; });
    if (pending_.size() > kMostPending) Flush();
  }

  std::vector<double> Take() {
    Flush();
    return std::move(cpu_);
  }

 private:
  struct Window {
    TimeSpan span;
    double cpu_ps;  // not distributed yet
  };

  double PendingCpu() const {
    double sum = 0;
    for (const Window& window : pending_) sum += window.cpu_ps;
    return sum;
  }

  // Whether the thread ran in a sample there. What it used elsewhere is in no run.
  bool HasRuns(TimeSpan window) {
    while (first_ < runs_.size() && runs_[first_].to_ps <= window.start_ps) ++first_;
    for (size_t run = first_; run < runs_.size() && runs_[run].from_ps < window.end_ps; ++run) {
      if (parts_[run].all > 0) return true;
    }
    return false;
  }

  // To all samples of the window, those in waits included.
  void Flush() {
    for (const Window& window : pending_) Distribute(window.span, window.cpu_ps, &RunParts::all, &first_flushed_);
    pending_.clear();
  }

  // Returns how much of the time the runs took: a run has no more than its length in the window.
  double Distribute(TimeSpan window, double cpu_ps, double RunParts::*part, size_t* first) {
    while (*first < runs_.size() && runs_[*first].to_ps <= window.start_ps) ++*first;
    double ran = 0, given = 0;
    size_t end = *first;
    for (; end < runs_.size() && runs_[end].from_ps < window.end_ps; ++end) {
      ran += static_cast<double>(Common(runs_[end], window.start_ps, window.end_ps)) * parts_[end].*part;
    }
    if (ran <= 0) return 0;
    for (size_t run = *first; run < end; ++run) {
      const auto common = static_cast<double>(Common(runs_[run], window.start_ps, window.end_ps));
      const double its = std::min(cpu_ps / ran * common * (parts_[run].*part), common);
      cpu_[run] += its;
      given += its;
    }
    return given;
  }

  const std::vector<PythonRun>& runs_;
  std::vector<RunParts> parts_;
  std::vector<double> cpu_;
  size_t first_ = 0, first_flushed_ = 0;
  std::vector<Window> pending_;
};

// The CPU time of each run of a thread.
std::vector<double> CpuOf(const std::vector<PythonRun>& runs, const std::vector<TimeSpan>& waits,
                          const std::vector<UsagePoint>& points) {
  CpuOfRuns cpu(runs, waits, {points.front().at_ps, points.back().at_ps});
  for (size_t i = 1; i < points.size(); ++i) {
    cpu.Add({points[i - 1].at_ps, points[i].at_ps}, points[i].cpu_ps - points[i - 1].cpu_ps);
  }
  return cpu.Take();
}

void Move(int64_t by_ps, int64_t most_ps, int64_t* ps) {
  int64_t sum = 0;
  if (__builtin_add_overflow(*ps, by_ps, &sum)) sum = by_ps < 0 ? 0 : most_ps;
  *ps = std::clamp<int64_t>(sum, 0, std::max<int64_t>(most_ps, 0));
}

void MeasureThread(const ThreadUsage& usage, const std::vector<TimeSpan>& waits, PythonThread* thread) {
  const std::vector<double> cpu = CpuOf(thread->runs, waits, usage.points);
  for (size_t i = 0; i < cpu.size(); ++i) {
    PythonRun& run = thread->runs[i];
    const auto most = static_cast<double>(std::max<int64_t>(run.to_ps - run.from_ps, 0));
    const auto measured = static_cast<int64_t>(std::clamp(cpu[i], 0.0, most));
    const int64_t by = measured - run.cpu_ps;
    run.cpu_ps = measured;
    const auto tally = std::ranges::lower_bound(thread->tallies, run.stack, {}, &PythonTally::stack);
    if (tally == thread->tallies.end() || tally->stack != run.stack) continue;
    Move(by, tally->wall_ps, &tally->on_cpu_ps);
    if (run.collecting > 0) Move(by, tally->on_cpu_ps, &tally->collecting_ps);
  }
}

// The samples of the blocked run that lie in the time of the Python run.
double SamplesWithin(const BlockedRun& blocked, const PythonRun& run) {
  const int64_t from = std::max(blocked.first_ps, run.from_ps), to = std::min(blocked.last_ps, run.to_ps);
  if (to < from) return 0;
  if (blocked.last_ps == blocked.first_ps) return blocked.samples;
  return blocked.samples * static_cast<double>(to - from) / static_cast<double>(blocked.last_ps - blocked.first_ps);
}

void CountBlocked(const std::vector<BlockedRun>& blocked, std::vector<PythonRun>* runs) {
  size_t first = 0;
  for (PythonRun& run : *runs) {
    while (first < blocked.size() && blocked[first].last_ps < run.from_ps) ++first;
    double off = 0;
    int64_t behind = -1;
    for (size_t i = first; i < blocked.size() && blocked[i].first_ps <= run.to_ps; ++i) {
      if (blocked[i].last_ps <= behind) continue;
      off += SamplesWithin(blocked[i], run);
      behind = blocked[i].last_ps;
    }
    const auto most = static_cast<double>(run.samples);
    run.on_cpu = std::min(run.on_cpu, static_cast<uint32_t>(most - std::min(off, most) + 0.5));
    run.collecting = std::min(run.collecting, run.on_cpu);
  }
}

}  // namespace

void CountBlockedAsOffCpu(Timeline* timeline) {
  for (PythonThread& thread : timeline->python.threads) {
    const ThreadBlocked* const blocked = timeline->BlockedOfThread(thread.thread);
    if (blocked != nullptr) CountBlocked(blocked->runs, &thread.runs);
  }
}

void MeasureCpuOfSamples(Timeline* timeline) {
  std::vector<bool> are_waits;
  for (const EventType& type : timeline->types) are_waits.push_back(IsOffCpu(type));
  for (PythonThread& thread : timeline->python.threads) {
    const ThreadUsage* const usage = timeline->UsageOfThread(thread.thread);
    if (usage == nullptr || usage->points.size() < 2) continue;
    MeasureThread(*usage, WaitsOf(*timeline, are_waits, thread.thread), &thread);
  }
}

}  // namespace tbprof
