// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "writer/timeline/timeline.h"

namespace tbprof {

const ThreadUsage* Timeline::UsageOfThread(uint32_t thread) const {
  const auto found = std::ranges::lower_bound(usage, thread, {}, &ThreadUsage::thread);
  return found != usage.end() && found->thread == thread ? &*found : nullptr;
}

}  // namespace tbprof
