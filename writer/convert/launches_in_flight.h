// SPDX-License-Identifier: Apache-2.0
//
// Launches of one process whose work on a device there is no record of yet. What a killed process leaves here was lost.
//
// Process: converter, one thread. Untrusted: numbers and times.
#ifndef TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_
#define TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_

#include <cstdint>
#include <deque>

namespace tbprof {

// Numbers of calls grow, and wrap. Calls come by their times; their work comes before or after them.
class LaunchesInFlight {
 public:
  void Launch(uint32_t correlation, uint64_t start_ticks) {
    Forget();
    // The first that is lost is looked for: where there is no room, later ones may be left out.
    if (IsLater(correlation, newest_) && launches_.size() < kMost) launches_.push_back({correlation, start_ticks});
  }
  // Work of this launch is recorded, and so is that of earlier ones: devices work in order, but for other streams.
  void Work(uint32_t correlation) {
    if (!any_ || IsLater(correlation, newest_)) newest_ = correlation;
    any_ = true;
  }
  // The start of the earliest launch without work; 0: there is none.
  uint64_t EarliestTicks() {
    Forget();
    return launches_.empty() || !any_ ? 0 : launches_.front().ticks;
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  struct Call {
    uint32_t correlation;
    uint64_t ticks;
  };
  static bool IsLater(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }
  void Forget() {
    while (any_ && !launches_.empty() && !IsLater(launches_.front().correlation, newest_)) launches_.pop_front();
  }

  std::deque<Call> launches_;
  uint32_t newest_ = 0;
  bool any_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_LAUNCHES_IN_FLIGHT_H_
