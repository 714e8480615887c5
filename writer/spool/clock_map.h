// SPDX-License-Identifier: Apache-2.0
//
// Converts ticks of a session to picoseconds since an origin: linearly between the clock pairs of the run, and beyond
// the first and last pair with the slope of the whole run.
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
  // Ignores a pair that would make time run backwards.
  void Add(const ClockFact& pair);
  // To be called after the last Add. False: there is no pair.
  bool Finish();

  void SetOrigin(uint64_t ticks) { origin_ns_ = MonotonicNs(ticks); }
  // Saturates at the limits of int64 picoseconds (106 days).
  int64_t ToPs(uint64_t ticks) const;
  int64_t DurationPs(uint64_t ticks) const;  // saturates likewise
  // The wall clock at `ticks`, from the nearest pair before: the clock may have been set, or the machine suspended,
  // since the first pair.
  uint64_t UnixNs(uint64_t ticks) const;
  double ns_per_tick() const { return slope_; }
  // How many ticks `ns` (>= 0) last. Saturates at 9e18.
  uint64_t Ticks(double ns) const;
  const std::vector<ClockFact>& pairs() const { return pairs_; }

  // Number of intervals whose length differs by over 1 ms from the length by the whole run's slope: suspends,
  // migrations, or an unreliable counter.
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
