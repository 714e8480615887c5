// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/failed_processes.h"

#include <algorithm>
#include <utility>

#include "writer/base/arguments.h"
#include "writer/convert/rank_report.h"
#include "writer/spool/exec_images.h"

namespace tbprof {
namespace {

// A build starts thousands of compilers that fail.
constexpr size_t kMostKept = 1000;

}  // namespace

std::vector<FailedProcess> FindFailedProcesses(const CaptureWindow& window, SpoolFacts* facts) {
  std::vector<FailedProcess> failed;
  for (const auto& [identity, process] : facts->processes) {
    const bool has_failed = process.exit_signal != 0 || process.exit_code > 0;
    if (!has_failed || !window.HasEnded(process.end_ticks, *facts)) continue;
    const ProcessFacts& image = ImageOf(identity, facts);
    FailedProcess one;
    one.pid = process.pid;
    one.parent_pid = process.parent_pid;
    one.name = ProcessName(image.executable, image.arguments);
    one.exit_signal = process.exit_signal;
    one.out_of_memory = process.out_of_memory;
    one.how = ExitText(process.exit_code, process.exit_signal, process.out_of_memory);
    one.end_ps = facts->clock.ToPs(process.end_ticks);
    failed.push_back(std::move(one));
  }
  std::ranges::stable_sort(failed, {}, &FailedProcess::end_ps);
  if (failed.size() > kMostKept) failed.erase(failed.begin(), failed.end() - kMostKept);
  return failed;
}

}  // namespace tbprof
