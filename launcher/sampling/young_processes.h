// SPDX-License-Identifier: Apache-2.0
//
// Holds back new processes until they have lived for kYouth. Most processes that a build or a shell starts end before
// the first sample, and preparing to sample such a process would cost as much as the process itself.
//
// Process: launcher, a sampler's thread.
#ifndef TBPROF_LAUNCHER_SAMPLING_YOUNG_PROCESSES_H_
#define TBPROF_LAUNCHER_SAMPLING_YOUNG_PROCESSES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "launcher/sampling/sampled_process.h"
#include "writer/base/scoped.h"

namespace tbprof {

class YoungProcesses {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kYouth{20};

  // Takes over `process.pidfd`.
  void Add(const SampledProcess& process, Time now) {
    young_.push_back({process, ScopedFd(process.pidfd), now + kYouth});
  }
  void Remove(uint32_t segment, uint32_t serial) {
    std::erase_if(
        young_, [&](const Young& young) { return young.process.segment == segment && young.process.serial == serial; });
  }
  // Removes and returns the processes that are old enough. The caller owns their descriptors.
  std::vector<SampledProcess> TakeGrown(Time now) {
    std::vector<SampledProcess> grown;
    // The queue is in order of arrival.
    while (!young_.empty() && young_.front().grown <= now) {
      young_.front().process.pidfd = young_.front().pidfd.Release();
      grown.push_back(young_.front().process);
      young_.pop_front();
    }
    return grown;
  }
  bool empty() const { return young_.empty(); }
  // The time of the next wake-up: the next tick if there are `others`, or earlier if a process becomes old enough.
  // Requires a young process or `others`.
  Time NextWake(bool others, Time next_tick) const {
    if (young_.empty()) return next_tick;
    return others ? std::min(next_tick, young_.front().grown) : young_.front().grown;
  }

 private:
  struct Young {
    SampledProcess process;
    ScopedFd pidfd;
    Time grown;
  };
  std::deque<Young> young_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_YOUNG_PROCESSES_H_
