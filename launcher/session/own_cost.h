// SPDX-License-Identifier: Apache-2.0
//
// What tbprof's hooks cost on this machine: the same steps as in a target, taken by the launcher on memory of its own
// at the start of a session. About 1 ms. The writer multiplies them with what was counted (docs/overhead.md).
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_SESSION_OWN_COST_H_
#define TBPROF_LAUNCHER_SESSION_OWN_COST_H_

#include "wire/clock.h"

namespace tbprof {

struct OwnCost {
  double clock_ns = 0;       // a reading of the session's clock
  double record_ns = 0;      // a span's record, without its clock readings and the first touch of its page
  double allocation_ns = 0;  // an allocator call that is counted
  double page_ns = 0;        // first touch of a page that is shared with the launcher
};

OwnCost MeasureOwnCost(ClockKind clock, double ticks_per_ns);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_OWN_COST_H_
