// SPDX-License-Identifier: Apache-2.0
//
// The exit status of a process that is not the launcher's child.
//
//   if (const std::optional<ExitStatus> status = ExitStatusOf(pidfd, pid)) ...
//
// Process: launcher. Never blocks. The process must have ended (its pidfd is readable).
#ifndef TBPROF_LAUNCHER_BASE_EXIT_STATUS_H_
#define TBPROF_LAUNCHER_BASE_EXIT_STATUS_H_

#include <sys/types.h>

#include <optional>

namespace tbprof {

struct ExitStatus {
  int code = -1;   // -1: a signal ended it
  int signal = 0;  // 0: it exited
  bool core_dumped = false;
};

// Before the parent has waited for the process: from /proc; afterwards from the pidfd (Linux 6.15). std::nullopt: the
// kernel reports neither to this user.
std::optional<ExitStatus> ExitStatusOf(int pidfd, pid_t pid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_EXIT_STATUS_H_
