// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/timeline_native.h"

#include <algorithm>

namespace tbprof {

const NativeThread* NativeTimeline::OfThread(uint32_t thread) const {
  const auto found = std::lower_bound(threads.begin(), threads.end(), thread,
                                      [](const NativeThread& known, uint32_t index) { return known.thread < index; });
  return found != threads.end() && found->thread == thread ? &*found : nullptr;
}

}  // namespace tbprof
