// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "writer/verdict/cause_choice.h"

namespace tbprof {
namespace {

// Differences between the shares of waiting. From kLargeDifference on it does not matter how long all processes wait
// for each other.
constexpr double kLeastDifference = 0.15, kLargeDifference = 0.3;
// Least share of waiting: a process that only starts the others does not wait for them at a barrier.
constexpr double kLeastWait = 0.005;

bool WaitsForOthers(const PythonTags& tags, const WaitSlice& wait) {
  const PythonTag tag = tags.TagOf(wait.stack);
  return wait.kind == WaitClass::kCollective || tag == PythonTag::kBarrier || tag == PythonTag::kCollective;
}

}  // namespace

bool IsStraggler(double most, double least) {
  return most - least >= kLargeDifference || (most - least >= kLeastDifference && least < most / 2);
}

Stragglers FindStragglers(const CauseInputs& inputs) {
  Stragglers stragglers;
  const auto total = static_cast<double>(LengthOf(inputs.span.spans));
  double least = 2, most = 0;
  uint32_t last_process = kNoProcess;
  for (uint32_t i = 0; i < inputs.timeline.threads.size() && total > 0; ++i) {
    const Thread& thread = inputs.timeline.threads[i];
    if (!thread.is_main || thread.is_line || thread.process == last_process) continue;
    last_process = thread.process;
    const ThreadTime time(inputs.timeline, inputs.classes, i, inputs.span.spans);
    double waited = 0;
    for (const WaitSlice& wait : time.waits()) {
      if (WaitsForOthers(inputs.tags, wait)) waited += static_cast<double>(wait.end_ps - wait.start_ps);
    }
    // Samples count as well: the process may wait inside a library that is not recorded.
    for (const auto& [stack, running] : time.running()) {
      const PythonTag tag = inputs.tags.TagOf(stack);
      if (tag == PythonTag::kBarrier || tag == PythonTag::kCollective)
        waited += static_cast<double>(running.off_cpu_ps + running.on_cpu_ps);
    }
    const double share = waited / total;
    if (share < kLeastWait) continue;
    ++stragglers.processes;
    most = std::max(most, share);
    if (share < least) {
      least = share;
      stragglers.slow_thread = i;
    }
  }
  stragglers.others_wait = most;
  stragglers.slow_waits = least;
  stragglers.found = stragglers.processes >= 2 && IsStraggler(most, least);
  return stragglers;
}

}  // namespace tbprof
