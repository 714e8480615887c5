// SPDX-License-Identifier: Apache-2.0
//
// Converts the timestamps of the kernel's samples, which are of CLOCK_MONOTONIC outside of time namespaces, to ticks of
// the session.
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
  uint64_t TicksAt(uint64_t monotonic_ns) const;  // of the kernel

 private:
  struct Pair {
    uint64_t ticks = 0, ns = 0;
  };
  Pair Read() const;
  uint64_t ReadKernels() const;

  ClockKind kind_;
  int64_t offset_ns_;  // of CLOCK_MONOTONIC in this time namespace; the kernel's timestamps are without
  Pair first_, last_;
  double ticks_per_ns_ = 1;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_TICK_CLOCK_H_
