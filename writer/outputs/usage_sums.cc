// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/usage_sums.h"

#include <set>

#include "writer/base/saturating.h"

namespace tbprof {

UsageSums SumsOfThreads(const Timeline& timeline) {
  int64_t cpu_ps = 0, wait_ps = 0;
  std::set<int32_t> replaced;  // pids
  for (const ThreadUsage& usage : timeline.usage) {
    if (usage.points.empty()) continue;
    const Thread& thread = timeline.threads[usage.thread];
    const Process& process = timeline.processes[thread.process];
    // The counts of a main thread go on after an exec: those of the program before are in its own.
    const bool goes_on = timeline.attached || (thread.is_main && replaced.contains(process.pid));
    if (thread.is_main && process.replaced) replaced.insert(process.pid);
    const UsagePoint &first = usage.points.front(), &last = usage.points.back();
    AddSaturating(&cpu_ps, last.cpu_ps - (goes_on ? first.cpu_ps : 0));
    // Of a window, only what is in it. The first reading of a thread is at most 50 ms after its start.
    AddSaturating(&wait_ps, last.run_delay_ps - first.run_delay_ps);
  }
  return {static_cast<double>(cpu_ps) / 1e12, static_cast<double>(wait_ps) / 1e12};
}

}  // namespace tbprof
