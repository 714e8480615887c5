// SPDX-License-Identifier: Apache-2.0
//
// Measures the overhead of tbprof's hooks on this machine: the launcher runs the same steps as a target, on its own
// memory, at the start of a session. Takes about 1 ms. The writer multiplies the costs by the counted calls
// (docs/overhead.md).
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_SESSION_OWN_COST_H_
#define TBPROF_LAUNCHER_SESSION_OWN_COST_H_

#include "wire/clock.h"

namespace tbprof {

struct OwnCost {
  double clock_ns = 0;       // one reading of the session's clock
  double record_ns = 0;      // one span record, without its clock readings and the first touch of its page
  double allocation_ns = 0;  // one counted allocator call
  double page_ns = 0;        // first touch of a page shared with the launcher
};

OwnCost MeasureOwnCost(ClockKind clock, double ticks_per_ns);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_OWN_COST_H_
