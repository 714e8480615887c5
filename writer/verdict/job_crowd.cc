// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/job_crowd.h"

#include <algorithm>

#include "writer/base/text.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/step_span.h"

namespace tbprof {

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
    if (its != process) crowd.children += ran;
  }
  const auto window = static_cast<double>(std::max<int64_t>(timeline.duration_ps, 1));
  crowd.ran += static_cast<double>(timeline.cpu_of_others.cpu_ps) / window;
  crowd.delayed += static_cast<double>(timeline.cpu_of_others.run_delay_ps) / window;
  return crowd;
}

std::string OfCpus(const CpuLimits& limits) {
  if (limits.cpus_allowed <= 0) return " CPUs";
  return StrCat(" of ", limits.cpus_allowed, " CPUs",
                limits.cpus_before > 0 ? StrCat(" (", limits.cpus_before, " before)") : "");
}

}  // namespace tbprof
