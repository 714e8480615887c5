// SPDX-License-Identifier: Apache-2.0
//
// Which times on CUPTI's clock device work of this process can have: from its cuInit until now, on every clock that was
// read meanwhile. Beyond them a time is CUPTI's mistake (2^63: legion#1800), not a long or an early kernel.
//
// Process: target, tbprof's own thread.
#ifndef TBPROF_CUPTI_TIME_RANGE_H_
#define TBPROF_CUPTI_TIME_RANGE_H_

#include <stdint.h>

namespace tbprof::cupti {

class TimeRange {
 public:
  // More than GPU clocks err.
  static constexpr uint64_t kMarginNs = 60'000'000'000;

  // One reading of the two clocks. The system's time may be set, and CUPTI's with it: each clock that was is valid.
  void Add(uint64_t monotonic_ns, uint64_t gpu_ns) {
    const auto offset = static_cast<int64_t>(gpu_ns - monotonic_ns);
    if (given_up_) return;
    if (first_ns_ == 0) {
      first_ns_ = monotonic_ns;
      lowest_ = highest_ = offset;
    }
    if (offset < lowest_) lowest_ = offset;
    if (offset > highest_) highest_ = offset;
    earliest_ = first_ns_ + static_cast<uint64_t>(lowest_);
    earliest_ = earliest_ < kMarginNs ? 0 : earliest_ - kMarginNs;
    latest_ = monotonic_ns + static_cast<uint64_t>(highest_) + kMarginNs;
  }

  // Another clock took the place of CUPTI's: nothing is known of it.
  void GiveUp() {
    first_ns_ = 0;
    given_up_ = true;
  }

  // Without a reading every time is possible.
  bool Has(uint64_t start, uint64_t end) const { return first_ns_ == 0 || (start >= earliest_ && end <= latest_); }

 private:
  uint64_t first_ns_;
  int64_t lowest_, highest_;
  uint64_t earliest_, latest_;
  bool given_up_;
};

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_TIME_RANGE_H_
