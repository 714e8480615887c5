// SPDX-License-Identifier: Apache-2.0
//
// The times on CUPTI's clock that device work of this process can have: from its cuInit until now, with every offset
// between the clocks that was read meanwhile. A time outside of this range is an error of CUPTI (2^63: legion#1800),
// not a long or an early kernel.
//
// Process: target, tbprof's own thread.
#ifndef TBPROF_CUPTI_TIME_RANGE_H_
#define TBPROF_CUPTI_TIME_RANGE_H_

#include <stdint.h>

namespace tbprof::cupti {

class TimeRange {
 public:
  // Larger than the error of GPU clocks.
  static constexpr uint64_t kMarginNs = 60'000'000'000;

  // Adds one reading of the two clocks. If the system time is set, CUPTI's clock jumps, too: times before and after the
  // jump are valid.
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

  // The program has replaced CUPTI's clock by its own, which is unknown: every time is possible.
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
