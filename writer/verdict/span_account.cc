// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/span_account.h"

#include <array>
#include <string>
#include <utility>

#include "writer/verdict/cpu_split.h"
#include "writer/verdict/library_pools.h"
#include "writer/verdict/native_places.h"
#include "writer/verdict/wait_parts.h"

namespace tbprof {
namespace {

// A kernel launch takes microseconds. A longer launch waits for room in the GPU's queue.
constexpr int64_t kLongLaunchPs = 50'000'000;

bool IsCopy(WaitClass kind) { return kind == WaitClass::kGpuCopy || kind == WaitClass::kGpuCopyAsync; }

// Whether the call waits for the GPU or for room in its queue: the GPU's activity then decides the part of the step.
bool IsByGpu(const WaitSlice& wait) {
  if (wait.kind == WaitClass::kGpuWait || IsCopy(wait.kind)) return true;
  return wait.kind == WaitClass::kGpuLaunch && wait.end_ps - wait.start_ps >= kLongLaunchPs;
}

}  // namespace

void AddWaits(const PythonTags& tags, const ThreadTime& time, const GpuTime& gpu, Account* account) {
  for (const WaitSlice& wait : time.waits()) {
    const int64_t length = wait.end_ps - wait.start_ps;
    if (IsByGpu(wait)) {
      std::array<int64_t, kStepParts> parts{};
      gpu.Add(wait.start_ps, wait.end_ps, &parts);
      // The GPU is idle during the wait: launched work has not started yet, or the CPU prepares a copy.
      if (wait.kind != WaitClass::kGpuLaunch) {
        const StepPart idle = IsCopy(wait.kind) ? StepPart::kCopies : StepPart::kKernels;
        parts[static_cast<size_t>(idle)] += std::exchange(parts[static_cast<size_t>(StepPart::kLaunch)], 0);
      }
      for (size_t i = 0; i < kStepParts; ++i) account->AddWait(static_cast<StepPart>(i), wait, parts[i]);
      continue;
    }
    account->AddWait(PartOfWait(tags, wait), wait, length);
  }
}

Account AccountOf(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                  const std::vector<TimeSpan>& spans) {
  const GpuTime gpu(timeline, timeline.threads[thread].process, spans);
  WaitClasses classes(timeline);
  classes.AddPools(FindLibraryPools(timeline, tags, classes, gpu, thread, spans));
  const NativePlaces natives(timeline);
  const ThreadTime time(timeline, classes, thread, spans);
  Account account(tags);
  AddWaits(tags, time, gpu, &account);
  std::vector<std::string> limits;
  SplitRunning(timeline, tags, natives, thread, time, UsageOf(timeline, thread, spans), 0, &account, &limits);
  return account;
}

}  // namespace tbprof
