// SPDX-License-Identifier: Apache-2.0
//
// Keeps the CPU time of the calling thread below a share of the machine's: doubles its interval while it uses more, and
// halves it again, down to the wanted one, below 40 % of that share.
//
// Process: launcher, the governed thread only.
#ifndef TBPROF_LAUNCHER_SAMPLING_RATE_GOVERNOR_H_
#define TBPROF_LAUNCHER_SAMPLING_RATE_GOVERNOR_H_

#include <chrono>
#include <cstdint>

namespace tbprof {

class RateGovernor {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `max_share`: of all CPUs of the machine. `at_once`: a rate that is far too high is lowered after a quarter of a
  // second, and to what it should be; for sampling that lasts a few seconds.
  RateGovernor(std::chrono::nanoseconds wanted, double max_share, bool at_once = false)
      : wanted_(wanted), interval_(wanted), max_share_(max_share), at_once_(at_once) {}

  std::chrono::nanoseconds interval() const { return interval_; }
  // Measures from now on.
  void Restart(Time now);
  // Once a second adapts the interval. Returns whether it looked.
  bool Govern(Time now);

 private:
  const std::chrono::nanoseconds wanted_;
  std::chrono::nanoseconds interval_;
  const double max_share_;
  const bool at_once_;
  Time since_{};
  int64_t cpu_ns_ = 0;  // of the thread at `since_`
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_RATE_GOVERNOR_H_
