// SPDX-License-Identifier: Apache-2.0
//
// What a thread was blocked in by samples, where no recorded call says so: calls that have no hook, pages that are
// read, locks of a library's own. And what the descriptors of its calls were.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_BLOCKED_TIME_H_
#define TBPROF_WRITER_VERDICT_BLOCKED_TIME_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Samples of one kind, by stack of Python (index into PythonTimeline::stacks; 0: not known).
using BlockedSamples = std::map<std::pair<uint32_t, BlockedIn>, double>;
BlockedSamples BlockedSamplesIn(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans);

class DescriptorKinds {
 public:
  DescriptorKinds(const Timeline& timeline, uint32_t thread);
  // What a descriptor mostly was when a sample found it; kOther: not known.
  BlockedIn Of(uint64_t fd) const;

 private:
  std::map<uint64_t, std::array<uint64_t, kBlockedKinds>> samples_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_BLOCKED_TIME_H_
