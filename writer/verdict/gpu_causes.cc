// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/gpu_causes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_format.h"
#include "writer/base/summary_format.h"

namespace tbprof {
namespace {

constexpr double kSyncsOfStep = 4, kIdleGpu = 0.25, kBusyGpu = 0.9;
constexpr int64_t kTinyKernelPs = 20'000'000;
// Of kernels that are no longer than a launch, a GPU that is busy computes little.
constexpr double kAsShortAsLaunchesPs = 5'000'000;
constexpr double kKernelsOfStep = 20;
// Two calls with at most this time between them count as one sequence.
constexpr int64_t kBetweenCallsPs = 50'000'000;
constexpr uint64_t kLittle = 4096;

bool IsSync(WaitClass kind) { return kind == WaitClass::kGpuWait || kind == WaitClass::kGpuCopy; }
bool IsLaunch(WaitClass kind) { return kind == WaitClass::kGpuLaunch; }

// Time in the calls of one kind, plus the time to the next such call where that is at most kBetweenCallsPs.
int64_t BackToBackPs(const ThreadTime& time, bool (*is_wanted)(WaitClass)) {
  int64_t sum = 0;
  std::optional<int64_t> last_end;
  for (const WaitSlice& wait : time.waits()) {
    if (!is_wanted(wait.kind)) continue;
    sum += wait.end_ps - wait.start_ps;
    const int64_t between = wait.start_ps - last_end.value_or(wait.start_ps);
    if (between <= kBetweenCallsPs) sum += between;
    last_end = wait.end_ps;
  }
  return sum;
}

struct Syncs {
  size_t count = 0;
  bool begin_late =
      false;  // most of the waiting is for work that the GPU has not begun: it is not the GPU that computes
};

Syncs SyncsOf(const CauseInputs& in) {
  Syncs syncs;
  int64_t waited_ps = 0, idle_waited_ps = 0;
  for (const WaitSlice& wait : in.time.waits()) {
    if (!IsSync(wait.kind)) continue;
    ++syncs.count;
    waited_ps += wait.end_ps - wait.start_ps;
    // While a copy waits, the CPU may prepare it.
    if (wait.kind != WaitClass::kGpuWait) continue;
    std::array<int64_t, kStepParts> parts{};
    in.gpu.Add(wait.start_ps, wait.end_ps, &parts);
    idle_waited_ps += parts[static_cast<size_t>(StepPart::kLaunch)];
  }
  syncs.begin_late = !in.gpu.is_cut() && idle_waited_ps > waited_ps / 2;
  return syncs;
}

}  // namespace

GpuCauses FindGpuCauses(const CauseInputs& in, uint64_t steps, int64_t total_ps) {
  GpuCauses causes;
  if (!in.gpu.any()) return causes;
  const auto busy_ps = static_cast<double>(in.gpu.busy_ps());
  const double idle = total_ps <= 0 ? 1 : 1 - busy_ps / static_cast<double>(total_ps);
  const auto kernels = static_cast<double>(in.gpu.kernels());
  const double mean_kernel = kernels <= 0 ? 0 : static_cast<double>(in.gpu.kernel_ps()) / kernels;
  const double counted = static_cast<double>(std::max<uint64_t>(steps, 1));
  const Syncs syncs = SyncsOf(in);
  const bool often = steps == 0 || static_cast<double>(syncs.count) >= kSyncsOfStep * counted;
  if (idle >= kIdleGpu && (often || syncs.begin_late)) {
    // Includes the host's time between consecutive calls, as for launches.
    causes.candidates.push_back(
        {Cause::kSync, StepPart::kKernels, BackToBackPs(in.time, IsSync), [](const AccountRow& row) {
           return IsDoing(row, {WaitClass::kGpuWait, WaitClass::kGpuCopy, WaitClass::kGpuCopyAsync});
         }});
  }
  // Copies of single numbers to the host belong to the synchronization.
  const int64_t copies = in.account.parts()[static_cast<size_t>(StepPart::kCopies)];
  if (copies > 0 && in.gpu.pageable_bytes() > kLittle * in.gpu.pageable_copies()) {
    causes.candidates.push_back({Cause::kPageableCopy, StepPart::kCopies, copies,
                                 [](const AccountRow& row) { return row.part == StepPart::kCopies; }});
  }
  const bool are_tiny = mean_kernel < (idle >= kIdleGpu ? static_cast<double>(kTinyKernelPs) : kAsShortAsLaunchesPs);
  if (are_tiny && kernels >= kKernelsOfStep * counted) {
    // Includes the host's time between consecutive launches.
    causes.candidates.push_back(
        {Cause::kTinyKernels, StepPart::kLaunch, BackToBackPs(in.time, IsLaunch), [](const AccountRow& row) {
           const bool prepares =
               row.doing == kRunning && (row.part == StepPart::kPython || row.part == StepPart::kOperations);
           return prepares || IsDoing(row, {WaitClass::kGpuLaunch, WaitClass::kGpuOther});
         }});
  }
  // Several GPUs may work in turn, and of a part of the work it is not known when it ran.
  causes.is_limit = in.gpu.devices() == 1 && !in.gpu.is_cut() &&
                    static_cast<double>(in.gpu.computing_ps()) >= kBusyGpu * static_cast<double>(total_ps);
  if (causes.is_limit) {
    causes.candidates.push_back({Cause::kKernels, StepPart::kKernels, in.gpu.computing_ps(),
                                 [](const AccountRow& row) { return row.part == StepPart::kKernels; }});
  }
  causes.fact = absl::StrFormat("GPU busy %s of the time, %s kernels of %s", HumanPercent(1 - idle),
                                HumanCount(in.gpu.kernels()), HumanTime(static_cast<int64_t>(mean_kernel)));
  return causes;
}

}  // namespace tbprof
