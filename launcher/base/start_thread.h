// SPDX-License-Identifier: Apache-2.0
//
// Starts the launcher's threads. Where the limit of processes is reached (`ulimit -u`, `ulimit -d`, the cgroup's
// pids.max), std::thread throws; here that is a status.
//
// Process: launcher, any thread.
#ifndef TBPROF_LAUNCHER_BASE_START_THREAD_H_
#define TBPROF_LAUNCHER_BASE_START_THREAD_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace tbprof {

// The launcher with its threads, and the signal probe.
inline constexpr char kLimitOfProcesses[] =
    "tbprof run needs six beside the command's own (`ulimit -u`, `ulimit -d`, the cgroup's pids.max)";

// The thread blocks all signals: only the launcher's main thread reads them. ResourceExhausted: `*thread` is as before.
absl::Status StartThread(std::thread* thread, std::function<void()> body);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_START_THREAD_H_
