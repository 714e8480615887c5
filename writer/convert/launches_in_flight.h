// SPDX-License-Identifier: Apache-2.0
//
// Launches of one process whose device work has no record. After a process was killed, the work of the remaining
// launches is lost: CUPTI delivers calls before work that is not finished, the work of one stream before another's, and
// a buffer of calls before an older one.
//
// Process: converter, one thread. Untrusted: numbers and times.
#ifndef TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_
#define TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

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
  // The start of the earliest launch since `since_ticks` without work or before a hole, of the latest launches that are
  // kept; 0: none. An older launch lacks work for another reason: CUPTI is asked for all finished work several times a
  // second.
  uint64_t EarliestTicks(uint64_t since_ticks) const {
    const absl::flat_hash_set<uint32_t> works(works_.begin(), works_.end());
    uint64_t earliest = 0;
    std::vector<Call> late;
    for (const Call& call : launches_) {
      if (call.ticks < since_ticks) continue;
      late.push_back(call);
      if (works.contains(call.correlation)) continue;
      earliest = earliest == 0 ? call.ticks : std::min(earliest, call.ticks);
    }
    const uint64_t hole = TicksBeforeHole(std::move(late));
    return earliest == 0 || (hole != 0 && hole < earliest) ? hole : earliest;
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  // A full buffer with unfinished work is delivered after the next one of its thread, so that a kill can leave a hole:
  // CUPTI numbers all calls, and the numbers of successive launches are then further apart than before.
  static constexpr size_t kLaunchesBeforeHole = 16;  // fewer show no usual distance
  static constexpr uint32_t kHole = 8;               // a distance up to this one is none
  static constexpr uint32_t kTimesWidest = 3;        // nor one below so many times the widest before
  struct Call {
    uint32_t correlation;
    uint64_t ticks;
  };

  // The start of the launch before the first hole; 0: none. Too early, if the program made other calls there.
  static uint64_t TicksBeforeHole(std::vector<Call> calls) {
    std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.correlation < b.correlation; });
    uint32_t widest = 1;
    for (size_t i = 1; i < calls.size(); ++i) {
      const uint32_t distance = calls[i].correlation - calls[i - 1].correlation;
      if (i >= kLaunchesBeforeHole && distance > kHole && distance / kTimesWidest >= widest) return calls[i - 1].ticks;
      widest = std::max(widest, distance);
    }
    return 0;
  }

  std::deque<Call> launches_;
  std::deque<uint32_t> works_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_
