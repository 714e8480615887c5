// SPDX-License-Identifier: Apache-2.0
//
// Launches of one process whose device work has no record. After a process was killed, the work of the remaining
// launches is lost: CUPTI delivers calls before work that is not finished, and the work of one stream before another's.
//
// Process: converter, one thread. Untrusted: numbers and times.
#ifndef TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_
#define TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_

#include <algorithm>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_set.h"

namespace tbprof {

class LaunchesInFlight {
 public:
  void Launch(uint32_t correlation, uint64_t start_ticks) {
    launches_.push_back({correlation, start_ticks});
    if (launches_.size() > kMost) launches_.pop_front();
  }
  // All kernels of a graph have one number.
  void Work(uint32_t correlation) {
    if (!works_.empty() && works_.back() == correlation) return;
    works_.push_back(correlation);
    if (works_.size() > kMost) works_.pop_front();
  }
  // The start of the earliest launch since `since_ticks` without work, of the latest launches that are kept; 0: none.
  // An older launch lacks work for another reason: CUPTI is asked for all finished work several times a second.
  uint64_t EarliestTicks(uint64_t since_ticks) const {
    const absl::flat_hash_set<uint32_t> works(works_.begin(), works_.end());
    uint64_t earliest = 0;
    for (const Call& call : launches_) {
      if (call.ticks < since_ticks || works.contains(call.correlation)) continue;
      earliest = earliest == 0 ? call.ticks : std::min(earliest, call.ticks);
    }
    return earliest;
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  struct Call {
    uint32_t correlation;
    uint64_t ticks;
  };

  std::deque<Call> launches_;
  std::deque<uint32_t> works_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_
