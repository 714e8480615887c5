// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/timeline_python.h"

#include <algorithm>

namespace tbprof {

uint32_t PythonThread::StackAt(int64_t at_ps) const {
  const auto run = std::ranges::upper_bound(runs, at_ps, {}, &PythonRun::to_ps);
  return run != runs.end() && run->from_ps <= at_ps ? run->stack : 0;
}

const PythonThread* PythonTimeline::OfThread(uint32_t thread) const {
  const auto found = std::lower_bound(threads.begin(), threads.end(), thread,
                                      [](const PythonThread& known, uint32_t index) { return known.thread < index; });
  return found != threads.end() && found->thread == thread ? &*found : nullptr;
}

}  // namespace tbprof
