// SPDX-License-Identifier: Apache-2.0
//
// Draws intervals between samples. A program that works in a rhythm (a loop that runs 100 times a second) would meet
// samples at equal distances always in the same function: of three functions, one would get all the time.
//
// Process: launcher. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_RANDOM_INTERVAL_H_
#define TBPROF_LAUNCHER_SAMPLING_RANDOM_INTERVAL_H_

#include <chrono>
#include <cstdint>
#include <random>

namespace tbprof {

class RandomInterval {
 public:
  // Intervals are evenly distributed from `mean` * (1 - spread) to `mean` * (1 + spread).
  explicit RandomInterval(double spread) : factor_(1 - spread, 1 + spread) {}

  std::chrono::nanoseconds Next(std::chrono::nanoseconds mean) {
    return std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(mean.count()) * factor_(engine_)));
  }

 private:
  std::minstd_rand engine_{static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  std::uniform_real_distribution<double> factor_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_RANDOM_INTERVAL_H_
