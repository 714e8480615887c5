// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/sample_cpu.h"

#include <algorithm>
#include <vector>

#include "writer/timeline/time_span.h"

namespace tbprof {
namespace {

int64_t Common(const PythonRun& run, int64_t from_ps, int64_t to_ps) {
  return CommonPs({run.from_ps, run.to_ps}, {from_ps, to_ps});
}

// The CPU time by samples, for a part of the time that the run stands for.
double BySamples(const PythonRun& run, int64_t common_ps) {
  return static_cast<double>(common_ps) * run.on_cpu / std::max<uint32_t>(run.samples, 1);
}

// The CPU time of each run of a thread.
std::vector<double> CpuOf(const std::vector<PythonRun>& runs, const std::vector<UsagePoint>& points) {
  std::vector<double> cpu(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    const PythonRun& run = runs[i];
    cpu[i] = BySamples(run, run.to_ps - run.from_ps - Common(run, points.front().at_ps, points.back().at_ps));
  }
  size_t first = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const UsagePoint &from = points[i - 1], &to = points[i];
    while (first < runs.size() && runs[first].to_ps <= from.at_ps) ++first;
    double ran = 0;
    size_t end = first;
    for (; end < runs.size() && runs[end].from_ps < to.at_ps; ++end) {
      ran += BySamples(runs[end], Common(runs[end], from.at_ps, to.at_ps));
    }
    if (ran <= 0) continue;
    const double factor = static_cast<double>(to.cpu_ps - from.cpu_ps) / ran;
    for (size_t run = first; run < end; ++run) {
      const int64_t common = Common(runs[run], from.at_ps, to.at_ps);
      cpu[run] += std::min(factor * BySamples(runs[run], common), static_cast<double>(common));
    }
  }
  return cpu;
}

void Move(int64_t by_ps, int64_t most_ps, int64_t* ps) {
  int64_t sum = 0;
  if (__builtin_add_overflow(*ps, by_ps, &sum)) sum = by_ps < 0 ? 0 : most_ps;
  *ps = std::clamp<int64_t>(sum, 0, std::max<int64_t>(most_ps, 0));
}

void MeasureThread(const ThreadUsage& usage, PythonThread* thread) {
  const std::vector<double> cpu = CpuOf(thread->runs, usage.points);
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
  for (PythonThread& thread : timeline->python.threads) {
    const ThreadUsage* const usage = timeline->UsageOfThread(thread.thread);
    if (usage != nullptr && usage->points.size() > 1) MeasureThread(*usage, &thread);
  }
}

}  // namespace tbprof
