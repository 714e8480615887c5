// SPDX-License-Identifier: Apache-2.0
//
// The clock of a session's timestamps, and its relation to CLOCK_MONOTONIC.
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

// The processor's counter if it runs at one constant rate on all cores, else CLOCK_MONOTONIC.
ClockKind ChooseClock();

// The session's clock and CLOCK_MONOTONIC at the same moment: the narrowest of five tries.
ClockFact ReadClockPair(ClockKind clock);

// Accurate to some ten parts in a million, which is enough for thresholds; timestamps are converted with the clock
// pairs of the whole run.
double MeasureTickRate(ClockKind clock, const ClockFact& first);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_CLOCK_H_
