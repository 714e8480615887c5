// SPDX-License-Identifier: Apache-2.0
//
// Converts times of CLOCK_MONOTONIC, the timestamps of the kernel's samples, to ticks of the session.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_TICK_CLOCK_H_
#define TBPROF_LAUNCHER_SAMPLING_TICK_CLOCK_H_

#include <cstdint>

#include "wire/clock.h"

namespace tbprof {

class TickClock {
 public:
  explicit TickClock(ClockKind kind);

  // Reads both clocks if the last pair is older than a second: conversions of times shortly before and after a pair are
  // exact to some microseconds.
  void Update();
  uint64_t TicksAt(uint64_t monotonic_ns) const;

 private:
  struct Pair {
    uint64_t ticks = 0, ns = 0;
  };
  Pair Read() const;

  ClockKind kind_;
  Pair first_, last_;
  double ticks_per_ns_ = 1;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_TICK_CLOCK_H_
