// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/quick_calls.h"
#include "writer/base/saturating.h"

#include <algorithm>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/wait_parts.h"

namespace tbprof {
namespace {

constexpr double kNearlyAll = 0.8;
// Least share of the thread's CPU time: less does not change the verdict.
constexpr double kLeastOfCpu = 0.1;
// The time of a counted call contains that of the hook's clock: at least this much of it is not the call's own.
constexpr double kMostOfCpu = 0.95;

// The recorded calls of a type, of all processes: more than those of one.
struct Recorded {
  int64_t ps = 0;
  StringId site = 0;  // where most of them were made
};
Recorded RecordedOf(const Timeline& timeline, uint16_t type) {
  Recorded recorded;
  uint64_t most = 0;
  for (const CallSiteTotal& site : timeline.wait_sites) {
    if (site.type != type) continue;
    AddSaturating(&recorded.ps, site.total_ps);
    if (site.calls <= most) continue;
    most = site.calls;
    recorded.site = site.site;
  }
  return recorded;
}

}  // namespace

std::vector<QuickCalls> QuickCallsOf(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                     uint32_t thread, const UsageInSpans& usage, int64_t gap_ps) {
  std::vector<QuickCalls> found;
  const uint32_t process = timeline.threads[thread].process;
  const auto own = static_cast<double>(CpuOfThread(timeline, thread));
  if (!usage.known || own <= 0 || own < kNearlyAll * static_cast<double>(CpuOfProcess(timeline, process))) return found;
  const double in_spans = std::min(1.0, static_cast<double>(usage.cpu_ps) / own);
  double left = kMostOfCpu * static_cast<double>(std::min(usage.cpu_ps, gap_ps));
  for (const OperationTotal& total : timeline.processes[process].operations) {
    const EventType& type = timeline.types[total.type];
    if (type.family != EventFamily::kIo || total.calls <= total.recorded) continue;
    const Recorded recorded = RecordedOf(timeline, total.type);
    const double ps = std::min(left, in_spans * static_cast<double>(total.total_ps - recorded.ps));
    if (ps <= 0 || ps < kLeastOfCpu * static_cast<double>(usage.cpu_ps)) continue;
    QuickCalls quick;
    Event call;
    call.type = total.type;
    call.duration_ps = 1;
    if (!classes.Classify(call, &quick.call.kind)) continue;
    quick.call.type = total.type;
    quick.call.call_site = recorded.site;
    quick.part = PartOfWait(tags, quick.call);
    quick.ps = static_cast<int64_t>(ps);
    const uint64_t calls = total.calls - total.recorded;
    quick.fact = StrCat(HumanCount(calls), " calls of ", type.name, ", ",
                        HumanTime((total.total_ps - recorded.ps) / static_cast<int64_t>(calls)),
                        " each: more bytes in each call need fewer");
    left -= ps;
    found.push_back(std::move(quick));
  }
  return found;
}

}  // namespace tbprof
