// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/job_crowd.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/step_span.h"

namespace tbprof {
namespace {

// Whether the threads' CPU time is far less than what the system counts for the command and its descendants. Known of
// whole runs alone.
bool IsPartial(const Timeline& timeline) {
  constexpr double kMostMissing = 0.3, kLeastSeconds = 0.5;
  const double of_command = timeline.user_cpu_seconds + timeline.system_cpu_seconds;
  const bool is_whole = (timeline.window == "auto" || timeline.window == "all") && !timeline.Runs() &&
                        !timeline.attached && timeline.user_cpu_seconds >= 0;
  int64_t seen_ps = timeline.cpu_of_others.cpu_ps;
  for (const ThreadUsage& usage : timeline.usage) {
    if (!usage.points.empty()) AddSaturating(&seen_ps, usage.points.back().cpu_ps);
  }
  const double missing = of_command - static_cast<double>(seen_ps) / 1e12;
  return is_whole && missing > kLeastSeconds && missing > kMostMissing * of_command;
}

}  // namespace

JobCrowd CrowdOf(const Timeline& timeline, uint32_t process, const std::vector<TimeSpan>& spans) {
  JobCrowd crowd;
  const auto length = static_cast<double>(std::max<int64_t>(LengthOf(spans), 1));
  for (const ThreadUsage& usage : timeline.usage) {
    if (usage.thread >= timeline.threads.size()) continue;
    const UsageInSpans sum = UsageOf(timeline, usage.thread, spans);
    const double ran = static_cast<double>(sum.cpu_ps) / length;
    crowd.ran += ran;
    crowd.delayed += static_cast<double>(sum.run_delay_ps) / length;
    const uint32_t its = timeline.threads[usage.thread].process;
    if (!IsWithin(timeline, its, process)) continue;
    crowd.here += ran;
    if (its == process) continue;
    crowd.children += ran;
    crowd.delayed_children += static_cast<double>(sum.run_delay_ps) / length;
  }
  const auto window = static_cast<double>(std::max<int64_t>(timeline.duration_ps, 1));
  crowd.ran += static_cast<double>(timeline.cpu_of_others.cpu_ps) / window;
  crowd.delayed += static_cast<double>(timeline.cpu_of_others.run_delay_ps) / window;
  crowd.is_partial = IsPartial(timeline);
  return crowd;
}

std::string UsedCpus(const JobCrowd& crowd) {
  return absl::StrFormat("the job used %s%.1f", crowd.is_partial ? "at least " : "", crowd.ran);
}

double CpusOf(const CpuLimits& limits) {
  const auto allowed = static_cast<double>(limits.cpus_allowed);
  return limits.quota_cpus > 0 ? std::min(allowed, limits.quota_cpus) : allowed;
}

std::string OfCpus(const CpuLimits& limits) {
  if (limits.cpus_allowed <= 0) return " CPUs";
  return StrCat(" of ", limits.cpus_allowed, " CPUs",
                limits.cpus_before > 0 ? StrCat(" (", limits.cpus_before, " before)") : "");
}

}  // namespace tbprof
