// SPDX-License-Identifier: Apache-2.0
//
// Ticks of a session to picoseconds since an origin: linear between the pairs taken along the run, and beyond the first
// and last pair with the slope of all of them.
//
// Process: converter. Not thread-safe (remembers the interval last used).
#ifndef TBPROF_WRITER_SPOOL_CLOCK_MAP_H_
#define TBPROF_WRITER_SPOOL_CLOCK_MAP_H_

#include <cstdint>
#include <vector>

#include "writer/spool/spool.h"

namespace tbprof {

class ClockMap {
 public:
  // A pair that would make time run backwards is left out.
  void Add(const ClockFact& pair);
  // After the last Add. False: no pair at all.
  bool Finish();

  void SetOrigin(uint64_t ticks) { origin_ns_ = MonotonicNs(ticks); }
  // Saturates at what int64 picoseconds hold (106 days).
  int64_t ToPs(uint64_t ticks) const;
  int64_t DurationPs(uint64_t ticks) const;  // saturates likewise
  // As the wall clock was then: it may have been set since the first pair, or the machine was suspended.
  uint64_t UnixNs(uint64_t ticks) const;
  double ns_per_tick() const { return slope_; }
  const std::vector<ClockFact>& pairs() const { return pairs_; }

  // Intervals whose slope puts their far end over 1 ms away from where the whole run's slope expects it: suspends,
  // migrations, a counter that is not what it seems.
  uint32_t breaks() const { return breaks_; }

 private:
  double MonotonicNs(uint64_t ticks) const;
  size_t PairBefore(uint64_t ticks) const;
  std::vector<ClockFact> pairs_;
  double slope_ = 1;
  double origin_ns_ = 0;
  uint32_t breaks_ = 0;
  mutable size_t last_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_CLOCK_MAP_H_
