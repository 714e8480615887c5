// SPDX-License-Identifier: Apache-2.0
//
// The clock that a session's records are stamped with, beside CLOCK_MONOTONIC.
//
//   const ClockKind clock = ChooseClock();
//   const ClockFact first = ReadClockPair(clock);
//   ...
//   const double ticks_per_ns = MeasureTickRate(clock, first);
//
// Process: launcher, main thread. MeasureTickRate waits until `first` is a millisecond old.
#ifndef TBPROF_LAUNCHER_SESSION_SESSION_CLOCK_H_
#define TBPROF_LAUNCHER_SESSION_SESSION_CLOCK_H_

#include "wire/clock.h"
#include "writer/spool/spool.h"

namespace tbprof {

// The processor's counter where it runs at one rate on all cores.
ClockKind ChooseClock();

// Counter and CLOCK_MONOTONIC at the same moment: the tightest of a few tries.
ClockFact ReadClockPair(ClockKind clock);

// Good to some ten parts in a million, for thresholds; times are converted by the pairs of the whole run.
double MeasureTickRate(ClockKind clock, const ClockFact& first);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_CLOCK_H_
