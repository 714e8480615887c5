// SPDX-License-Identifier: Apache-2.0
//
// The cost of recording to the program, from the counts of recorded activity and the costs that the launcher measured
// at the start (launcher/session/own_cost.h).
//
// Process: converter.
#ifndef TBPROF_WRITER_CONVERT_OWN_COST_H_
#define TBPROF_WRITER_CONVERT_OWN_COST_H_

#include <cstdint>
#include <map>

#include "writer/convert/session_facts.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct OwnCostInput {
  const SpoolFacts& facts;
  const SessionFacts& session;
  const std::map<Identity, uint32_t>& processes;  // of the timeline
  uint64_t open_ticks;                            // of the window
  bool whole_run;                                 // the totals cover the whole run
  bool is_later_window;                           // not the run's own window
  uint64_t samples;                               // sampled stacks of allocations
};

// In nanoseconds of CPU time. `timeline`: must have the totals of its processes.
double OwnCostNs(const OwnCostInput& input, const Timeline& timeline);

// Sets Process::observing_seconds of each process; likewise.
void SetObservingCosts(const SessionFacts& session, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_OWN_COST_H_
