// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/worker_cpus.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "writer/verdict/job_crowd.h"

namespace tbprof {
namespace {

// Shares of the CPUs that the job may use.
constexpr double kUsed = 0.75, kIdle = 0.6;
// Threads of the job that wait for a CPU meanwhile, and their part of those that run: others use the CPUs that it
// leaves.
constexpr double kMostDelayed = 0.5, kMostDelayedPart = 0.2;
// From so many of them on they are named; from so many for each CPU on, the job has too many threads.
constexpr double kCrowd = 1, kManyForACpu = 1;
// Share of the blocker's time in the pipe to or from a worker.
constexpr double kMostlySends = 0.5;
// A pipe takes gigabytes a second: with fewer bytes a second of the wait, it is no data that takes the time. A worker
// that has done a short piece of work waits there for the next.
constexpr double kLeastBytes = 5e6;

// Bytes that the thread has read and written in that time; -1: not known.
double BytesOf(const Timeline& timeline, uint32_t thread, TimeSpan span) {
  if (timeline.attached || !timeline.waits_recorded) return -1;
  double bytes = 0;
  for (const Event& event : timeline.threads[thread].events) {
    if (event.start_ps < span.start_ps || event.start_ps >= span.end_ps || event.value <= 0) continue;
    const EventType& type = timeline.types[event.type];
    if (type.family == EventFamily::kIo && type.value == ValueKind::kBytes) bytes += static_cast<double>(event.value);
  }
  return bytes;
}

// Whether the blocker mostly pickles, sends or receives data for processes of multiprocessing.
bool MostlySends(const Timeline& timeline, const std::vector<TimeSpan>& spans, const Verdict& verdict) {
  if (spans.empty()) return false;
  double share = 0, bytes = 0;
  bool is_known = true;
  std::set<uint32_t> threads;
  for (const Where& where : verdict.where) {
    if (where.role != WhereRole::kWaitedFor || where.thread == kOtherRank) continue;
    const std::string_view file = timeline.strings.Get(where.file), function = timeline.strings.Get(where.function);
    const bool sends =
        file.ends_with("/multiprocessing/connection.py") && !function.ends_with("poll") && !function.ends_with("wait");
    if (!sends && !file.ends_with("/multiprocessing/reduction.py")) continue;
    share += where.share;
    if (where.thread >= timeline.threads.size()) {
      is_known = false;
    } else if (threads.insert(where.thread).second) {
      const double of_thread = BytesOf(timeline, where.thread, {spans.front().start_ps, spans.back().end_ps});
      is_known = is_known && of_thread >= 0;
      bytes += of_thread * static_cast<double>(1 + where.alike);
    }
  }
  const double waits_s = static_cast<double>(verdict.total_ps) * verdict.share / 1e12;
  return share >= kMostlySends && (!is_known || bytes >= kLeastBytes * waits_s);
}

bool IsForWorkers(const Verdict& verdict) {
  const bool waits = verdict.cause == Cause::kWorkers || verdict.cause == Cause::kSlowLoader ||
                     verdict.cause == Cause::kPrefetchThread;
  return waits && (verdict.advice == Advice::kOfCause || verdict.advice == Advice::kOwnProcesses ||
                   verdict.advice == Advice::kOwnUnseen);
}

// Whether more of them may help: threads of its own that run may have the GIL in turn, however many they are.
bool AreSeparate(const Timeline& timeline, uint32_t process, const Verdict& verdict) {
  const auto first = std::ranges::find(verdict.where, WhereRole::kWaitedFor, &Where::role);
  if (first == verdict.where.end() || first->thread >= timeline.threads.size()) return false;
  return timeline.threads[first->thread].process != process || !first->doing.empty();
}

Advice ByCpus(const Timeline& timeline, uint32_t process, const Verdict& verdict, const JobCrowd& crowd, double cpus) {
  const double used = crowd.ran / cpus;
  if (verdict.advice != Advice::kOfCause) return verdict.advice;
  const bool is_loader = verdict.cause == Cause::kSlowLoader;
  if (used >= kUsed && crowd.delayed_children >= kManyForACpu * cpus) return Advice::kManyThreads;
  if (used >= kUsed) return is_loader ? Advice::kLoaderUsesCpus : Advice::kCpusAreUsed;
  const bool delays = crowd.delayed > std::min(kMostDelayed, kMostDelayedPart * crowd.ran);
  if (used > kIdle || crowd.is_partial || delays) return verdict.advice;
  if (is_loader) return Advice::kLoaderLeavesCpus;
  return AreSeparate(timeline, process, verdict) ? Advice::kCpusAreIdle : verdict.advice;
}

}  // namespace

void AddCpusOfWorkers(const Timeline& timeline, uint32_t process, const std::vector<TimeSpan>& spans,
                      Verdict* verdict) {
  if (!IsForWorkers(*verdict)) return;
  const double cpus = CpusOf(timeline.cpu_limits);
  const JobCrowd crowd = CrowdOf(timeline, process, spans);
  const double ran = crowd.ran;
  const bool is_said = std::ranges::any_of(verdict->facts, [](const std::string& fact) {
    return fact.starts_with("the job used ") || fact.starts_with("quota of ");
  });
  if (cpus > 0 && ran > 0 && !is_said) {
    verdict->facts.push_back(absl::StrFormat("%s of %.3g CPUs", UsedCpus(crowd), cpus));
    if (crowd.delayed >= kCrowd) {
      verdict->facts.back() += absl::StrFormat(", and %.1f of its threads waited for one", crowd.delayed);
    }
  }
  if (MostlySends(timeline, spans, *verdict)) {
    verdict->remedy = Advice::kSendsMuch;
  } else if (cpus > 0 && ran > 0) {
    verdict->advice = ByCpus(timeline, process, *verdict, crowd, cpus);
  }
}

}  // namespace tbprof
