// SPDX-License-Identifier: Apache-2.0
//
// The calls in which a thread was blocked, found by samples. This covers calls that are not recorded: calls without a
// hook, page reads, and locks inside a library. Also the kinds of the thread's file descriptors.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_BLOCKED_TIME_H_
#define TBPROF_WRITER_VERDICT_BLOCKED_TIME_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Number of samples by Python stack (index into PythonTimeline::stacks; 0: unknown) and kind of blocking call.
using BlockedSamples = std::map<std::pair<uint32_t, BlockedIn>, double>;
BlockedSamples BlockedSamplesIn(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans);

// Calls `visit` with each run of samples in which the thread was blocked, in order of time, without those that overlap
// one before, and with the Python stack sampled in its middle (0: unknown).
void ForEachBlockedRun(const Timeline& timeline, uint32_t thread,
                       const std::function<void(const BlockedRun& run, uint32_t stack)>& visit);

// When the thread was stopped by a signal or a debugger, without short stops. In order, disjoint.
std::vector<TimeSpan> StoppedSpans(const Timeline& timeline, uint32_t thread);

class DescriptorKinds {
 public:
  DescriptorKinds(const Timeline& timeline, uint32_t thread);
  // The kind of descriptor in most of the samples that were blocked on it; kOther: unknown.
  BlockedIn Of(uint64_t fd) const;

 private:
  std::map<uint64_t, std::array<uint64_t, kBlockedKinds>> samples_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_BLOCKED_TIME_H_
