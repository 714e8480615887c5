// SPDX-License-Identifier: Apache-2.0
//
// Processes that have only just begun. Most of those that a build or a shell starts end before a sample would be taken,
// and to find out what to sample costs as much as they do: a sampler takes a process up when it has lived for kYouth.
//
// Process: launcher, a sampler's thread.
#ifndef TBPROF_LAUNCHER_SAMPLING_YOUNG_PROCESSES_H_
#define TBPROF_LAUNCHER_SAMPLING_YOUNG_PROCESSES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "launcher/base/scoped.h"
#include "launcher/sampling/sampled_process.h"

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
  // Those that are old enough; their descriptors are the caller's.
  std::vector<SampledProcess> TakeGrown(Time now) {
    std::vector<SampledProcess> grown;
    // In the order in which they came.
    while (!young_.empty() && young_.front().grown <= now) {
      young_.front().process.pidfd = young_.front().pidfd.Release();
      grown.push_back(young_.front().process);
      young_.pop_front();
    }
    return grown;
  }
  bool empty() const { return young_.empty(); }
  // When to wake: at the next tick if there are `others`, earlier if one is old enough. There is one, or there are
  // others.
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
