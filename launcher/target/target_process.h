// SPDX-License-Identifier: Apache-2.0
//
// The target: started with exactly what the launcher was started with (signal mask and dispositions, working directory,
// umask, limits, descriptors, process group, session), watched by a pidfd, its end imitated.
//
//   SpawnRequest request{.command = options.command, .environment = TargetEnvironment(...), .signals =
//   signals.original()}; absl::StatusOr<TargetProcess> target = TargetProcess::Spawn(request, &exec_errno);
//   ... ppoll on target->pidfd() and signals.fd() ...
//   std::optional<TargetEnd> end = target->Poll();
//   ExitWithStatusOf(*end);
//
// Process: launcher, main thread. Other threads may exist at Spawn.
#ifndef TBPROF_LAUNCHER_TARGET_TARGET_PROCESS_H_
#define TBPROF_LAUNCHER_TARGET_TARGET_PROCESS_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/base/scoped.h"
#include "launcher/cli/options.h"
#include "launcher/target/signals.h"

namespace tbprof {

struct SpawnRequest {
  std::vector<std::string> command;
  Environment environment;
  OriginalSignals signals;
  std::optional<rlimit> descriptors = std::nullopt;  // RLIMIT_NOFILE as the launcher found it
};

// For a pidfd per process of the target, whatever the target may have itself. Gives what was before.
std::optional<rlimit> RaiseDescriptorLimit();

struct TargetEnd {
  bool signaled = false;
  int code = 0;  // exit status or signal number
  bool core_dumped = false;
  absl::Duration user_cpu;  // of the target and the children it waited for
  absl::Duration system_cpu;
  int64_t max_rss_bytes = 0;
};

class TargetProcess {
 public:
  // On failure of exec `*exec_errno` is its errno and ExecFailureStatus(errno) the exit status; on other failures 0.
  // The search and the treatment of ENOEXEC are execvp's.
  static absl::StatusOr<TargetProcess> Spawn(const SpawnRequest& request, int* exec_errno);
  // The same without a child: replaces the launcher. Returns the errno of exec.
  static int Exec(const SpawnRequest& request);

  TargetProcess(TargetProcess&&) = default;
  TargetProcess& operator=(TargetProcess&&) = default;
  ~TargetProcess() = default;  // never touches the process

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable when the target has ended; -1 on kernels before 5.3

  // The end if it has come (reaps it, once), else nothing. Never waits.
  std::optional<TargetEnd> Poll();
  TargetEnd Wait();

  // The signal that stopped the target if it is newly stopped by one. Call on SIGCHLD.
  std::optional<int> PollStopped();
  bool stopped() const;  // as /proc has it now

  // ESRCH after the end.
  absl::Status Signal(int signo, std::optional<int> value = std::nullopt);

 private:
  TargetProcess() = default;
  pid_t pid_ = -1;
  ScopedFd pidfd_;
  std::optional<TargetEnd> end_;
};

// 127 for ENOENT and ENOTDIR, 126 otherwise.
int ExecFailureStatus(int exec_errno);

// The user's environment with `library` first in LD_PRELOAD and `additions` (`NAME=value`) set; all else in its order
// and byte for byte. An empty library leaves LD_PRELOAD alone.
Environment TargetEnvironment(const Environment& environment, const std::string& library,
                              const std::vector<std::string>& additions);

// Leaves as the target left: its exit status, or killed by the same signal without a core file. As PID 1, where the
// kernel drops signals without handler, 128 + signal.
[[noreturn]] void ExitWithStatusOf(const TargetEnd& end);
// What `$?` will be: code or 128 + signal.
int ShellStatus(const TargetEnd& end);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_TARGET_PROCESS_H_
