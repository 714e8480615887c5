// SPDX-License-Identifier: Apache-2.0
//
// Starts the target with exactly the state that the launcher was started with (signal mask and dispositions, working
// directory, umask, limits, descriptors, process group, session), watches it with a pidfd, and imitates its end.
//
//   SpawnRequest request{.command = options.command, .environment = ..., .signals = signals.original()};
//   absl::StatusOr<TargetProcess> target = TargetProcess::Spawn(request, &exec_errno);
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
#include "launcher/cli/options.h"
#include "launcher/target/signals.h"
#include "writer/base/scoped.h"

namespace tbprof {

struct SpawnRequest {
  std::vector<std::string> command;
  Environment environment;
  OriginalSignals signals;
  // The launcher's limits at its start, if it raised them: RLIMIT_NOFILE and RLIMIT_AS.
  std::optional<rlimit> descriptors = std::nullopt, address_space = std::nullopt;
};

// Raises the launcher's RLIMIT_NOFILE to its hard limit: the launcher needs a pidfd for each process of the target, and
// the target's own limit may be lower. Returns the previous limit, for SpawnRequest::descriptors.
std::optional<rlimit> RaiseDescriptorLimit();
// Likewise, the address space (`ulimit -v`), which the launcher needs for a segment of each program: without a limit if
// it may, else up to the hard limit.
std::optional<rlimit> RaiseAddressSpaceLimit();

struct TargetEnd {
  bool signaled = false;
  int code = 0;  // exit status or signal number
  bool core_dumped = false;
  absl::Duration user_cpu;  // of the target and the children it waited for
  absl::Duration system_cpu;
};

class TargetProcess {
 public:
  // If exec fails, `*exec_errno` is its errno and ExecFailureStatus(errno) is the exit status; on other failures
  // `*exec_errno` is 0. The search in PATH and the handling of ENOEXEC are those of execvp.
  static absl::StatusOr<TargetProcess> Spawn(const SpawnRequest& request, int* exec_errno);
  // Replaces the launcher instead of starting a child. Returns the errno of exec.
  static int Exec(const SpawnRequest& request);

  TargetProcess(TargetProcess&&) = default;
  TargetProcess& operator=(TargetProcess&&) = default;
  ~TargetProcess() = default;  // never touches the process

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable when the target has ended; -1 on kernels before 5.3

  // Returns the end if the target has ended (and reaps it once), else std::nullopt. Never waits.
  std::optional<TargetEnd> Poll();
  TargetEnd Wait();

  // The signal that stopped the target since the last call; std::nullopt: none. Call on SIGCHLD.
  std::optional<int> PollStopped();
  bool stopped() const;  // the current state in /proc

  // Returns Unavailable after the target's end.
  absl::Status Signal(int signo, std::optional<int> value = std::nullopt);

  // Whether the target has made a process group of its own (`timeout`, os.setpgrp()) where without tbprof that would
  // have had no effect: it would lead the group that the launcher leads.
  bool leads_group() const;
  // Forwards the event to the target, or to its process group.
  void Forward(const SignalEvent& event);
  // If the target leads a group, the launcher's group has the terminal, and the terminal has stopped the target's group
  // for using it: hands the terminal over, continues the group and returns true. The target itself need not be stopped
  // (`timeout` is not), so this is to be called again and again. `target_stopped`: the target is, by SIGTTIN or
  // SIGTTOU.
  bool LendTerminal(bool target_stopped);
  // Whether the launcher is to look again soon.
  bool MayNeedTerminal() const { return has_terminal_job_ && leads_group(); }
  // For a target that leads a group and has stopped: where the launcher's group is orphaned (it is the session's
  // leader, as in a container), the kernel would have dropped the signal without tbprof. Then continues the target's
  // group and returns true.
  bool ContinueIfOrphaned();
  // The launcher is about to stop as the target was: then all of its group stops, as without tbprof.
  void StopLaunchersGroup(int signo);
  // Takes the terminal back after the target's end.
  void TakeTerminal();

 private:
  TargetProcess() = default;
  bool UsesTerminal();
  pid_t pid_ = -1;
  ScopedFd pidfd_;
  std::optional<TargetEnd> end_;
  bool has_terminal_job_ = false;  // the launcher leads its group, and its session has a terminal
  bool lent_ = false;
  bool asked_to_stop_ = false;  // by a forwarded signal
  bool probe_tried_ = false;
  uint64_t looks_until_ns_ = 0, next_look_ns_ = 0;  // at the target's processes, for what stopped them
  std::optional<SignalProbe> probe_;                // in the target's group
};

// 127 for ENOENT and ENOTDIR, 126 otherwise.
int ExecFailureStatus(int exec_errno);

// The user's environment with `library` first in LD_PRELOAD and with `additions` (`NAME=value`) set. All other entries
// keep their order and their bytes. With an empty `library`, LD_PRELOAD is not changed.
Environment TargetEnvironment(const Environment& environment, const std::string& library,
                              const std::vector<std::string>& additions);

// Ends the launcher as the target ended: with its exit status, or killed by the same signal without a core file. As
// PID 1, for which the kernel drops signals without a handler, it exits with 128 + signal.
[[noreturn]] void ExitWithStatusOf(const TargetEnd& end);
// The value of `$?` in a shell: code or 128 + signal.
int ShellStatus(const TargetEnd& end);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_TARGET_PROCESS_H_
