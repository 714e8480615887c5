// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/own_cost.h"

#include <algorithm>
#include <limits>

#include "wire/clock.h"
#include "wire/layout.h"
#include "writer/timeline/torch_names.h"
#include "writer/verdict/native_habits.h"

namespace tbprof {
namespace {

// Where samples of CPU time show how much of it was in tbprof's library, the cost is not far above that: a processor
// that has other work does part of a hook's beside it. The factor stands for what a hook makes others do: cold caches,
// `malloc_usable_size`.
double MostBySamples(const Timeline& timeline) {
  constexpr double kBeside = 1.2;
  const OwnShare own = OwnShareOfSamples(timeline);
  if (!own.known) return std::numeric_limits<double>::infinity();
  const double cpu_ns = std::max(static_cast<double>(own.cpu_ps) / 1000, timeline.user_cpu_seconds * 1e9);
  return kBeside * own.share * cpu_ns;
}

// The constants are the costs that tests/bench/own_cost.sh finds in addition to the measured costs.
double CostOfCallsNs(const SessionFacts& session, const EventType& type, const OperationTotal& total) {
  constexpr double kHookNs = 3;         // arguments and branches of a hook
  constexpr double kSystemCallNs = 17;  // code that runs with cold caches after a system call
  constexpr double kHandedOverNs = 50;  // cache lines of a record that the launcher's CPU holds
  constexpr double kObservedNs = 300;   // PyTorch's own work for an observed operation
  const double call = 2 * session.clock_cost_ns + kHookNs +
                      (type.family == EventFamily::kIo || type.family == EventFamily::kProcess ? kSystemCallNs : 0) +
                      (IsTorch(type.origin) ? kObservedNs : 0);
  return static_cast<double>(total.calls) * call +
         static_cast<double>(total.recorded) * (session.record_cost_ns + kHandedOverNs);
}

}  // namespace

double OwnCostNs(const OwnCostInput& input, const Timeline& timeline) {
  constexpr double kAllocationFactor = 1.4;
  constexpr double kSampleNs = 700;
  constexpr double kStartFactor = 2.6;  // loading the library, and the end of the mapping
  const SpoolFacts& facts = input.facts;
  const SessionFacts& session = input.session;
  uint64_t records_of_session = 1;
  double pages = 0;
  for (const auto& [number, segment] : facts.segments) {
    const double touched = static_cast<double>(segment.slots) * kSlotBytes / kPage;
    // `slots` does not count the records of dropped parts.
    const double used = static_cast<double>(segment.chunks_used) * kChunkBytes / kPage;
    pages += input.whole_run && !facts.dropped.empty() ? used : std::min(touched, used);
  }
  records_of_session = std::max(records_of_session, facts.records);
  const double share =
      input.whole_run ? 1
                      : std::min(1.0, static_cast<double>(timeline.records) / static_cast<double>(records_of_session));
  double nanoseconds = pages * session.page_cost_ns * share;
  for (const Process& process : timeline.processes) {
    for (const OperationTotal& total : process.operations) {
      const EventType& type = timeline.types[total.type];
      // The cost of CUPTI is in its own overhead records.
      if (type.family == EventFamily::kMemory || type.family == EventFamily::kGpu) continue;
      nanoseconds += CostOfCallsNs(session, type, total);
    }
    nanoseconds += kAllocationFactor * session.allocation_cost_ns *
                   static_cast<double>(process.allocator.allocations + process.allocator.frees);
    const ExactHeap& heap = process.exact_heap;
    nanoseconds += (session.record_cost_ns +
                    (session.malloc_stamp_every > 0 ? session.clock_cost_ns / session.malloc_stamp_every : 0)) *
                   static_cast<double>(heap.allocations + heap.releases);
  }
  nanoseconds += kSampleNs * static_cast<double>(input.samples);
  // Another clock than the counter is read in the C library.
  if (session.clock == static_cast<uint32_t>(ClockKind::kCounter)) {
    nanoseconds = std::min(nanoseconds, MostBySamples(timeline));
  }
  for (const auto& [identity, index] : input.processes) {
    const ProcessFacts& process = facts.processes.at(identity);
    // A process that attached before the window paid its start cost before.
    if (process.start_ticks < input.open_ticks && input.is_later_window) continue;
    const double start = process.last.start_cost;
    nanoseconds += process.forked ? start * facts.clock.ns_per_tick() : kStartFactor * start;
  }
  return nanoseconds;
}

void SetObservingCosts(const SessionFacts& session, Timeline* timeline) {
  for (Process& process : timeline->processes) {
    double nanoseconds = 0;
    for (const OperationTotal& total : process.operations) {
      const EventType& type = timeline->types[total.type];
      if (!IsTorchWork(type)) continue;
      // Of sampled operations, `calls` is an estimate of all.
      OperationTotal recorded = total;
      recorded.calls = std::min(total.calls, total.recorded);
      nanoseconds += CostOfCallsNs(session, type, recorded);
    }
    process.observing_seconds = nanoseconds / 1e9;
  }
}

}  // namespace tbprof
