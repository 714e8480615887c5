// SPDX-License-Identifier: Apache-2.0
//
// Handles the launcher's signals: its ppoll loop reads them from a signalfd, and a pure function decides about each
// signal, so that the target receives the same signals as without tbprof.
//
//   absl::StatusOr<SignalSet> signals = SignalSet::Install();      // first of all, before any thread
//   signals->StartProbe();
//   ... TargetProcess::Spawn(..., signals->original());
//   while (auto event = signals->Next(state))                      // when signals->fd() is readable
//     if (event->forward) target.Signal(event->signo, event->value);
//
// A signal from a process does not show whether it was sent to the whole process group (`kill %1`, `kill 0` in a
// script, systemd, Slurm). The signal probe is a small process in the same process group that blocks all signals. If
// the probe has received a signal too, the target has received it from the kernel, and the launcher must not forward
// it.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_TARGET_SIGNALS_H_
#define TBPROF_LAUNCHER_TARGET_SIGNALS_H_

#include <sys/types.h>

#include <array>
#include <csignal>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/scoped.h"

namespace tbprof {

// The signal mask and the ignored signals that the launcher was started with, and that the target must be started with.
// Trivially copyable, used between fork and exec.
struct OriginalSignals {
  sigset_t mask;
  std::array<bool, 65> ignored;  // by signal number

  static OriginalSignals Capture();
  void Restore() const;  // async-signal-safe; ignored signals are ignored again, all others get their default
};

enum class SignalAction {
  kNone,            // the kernel sent it to the target as well, or it has no meaning for the launcher
  kForward,         // send it to the target
  kCapture,         // a request for a window; see SignalEvent::forward
  kReap,            // SIGCHLD: check the target's state
  kWarnConverting,  // the first interrupt after the target's end: warn that a second one stops the conversion
  kStopConverting,  // keep the spool, print the recover command, exit
};

struct SignalState {
  int capture_signal = SIGUSR1;     // 0: none
  bool target_running = false;      // started and not yet reaped
  bool following = false;           // the target has ended, but other recorded processes still run
  bool target_stopped = false;      // without a probe SIGCONT is forwarded only if true; Next clears it at SIGCHLD
  bool target_has_handler = false;  // its own handler for capture_signal
  // The target has made a process group of its own (TargetProcess::leads_group): without tbprof, it would lead the
  // launcher's, and receive what is sent to that.
  bool target_leads_group = false;
  int interrupts = 0;  // SIGINT, SIGTERM, SIGQUIT, SIGHUP since the target's end; Next counts
};

struct SignalInfo {
  int signo = 0;
  int code = 0;                    // si_code
  std::optional<bool> group_wide;  // whether the probe received it, too; std::nullopt: there is no probe
  bool before_target = false;      // sent before the target existed
};

struct SignalDecision {
  SignalAction action = SignalAction::kNone;
  bool forward = false;
  bool to_group = false;  // forward to the target's process group
};
SignalDecision Decide(const SignalInfo& info, const SignalState& state);

struct SignalEvent {
  int signo = 0;
  SignalAction action = SignalAction::kNone;
  bool forward = false;
  bool to_group = false;     // forward to the target's process group
  std::optional<int> value;  // the value of sigqueue
};

// A process in the launcher's process group, or in another, which receives the signals that are sent to the group. It
// ends when the launcher ends.
class SignalProbe {
 public:
  // `group`: 0: the launcher's.
  static absl::StatusOr<SignalProbe> Start(pid_t group = 0);
  SignalProbe(SignalProbe&&) = default;
  SignalProbe& operator=(SignalProbe&&) = default;
  ~SignalProbe();

  // Whether the probe received `signo` since the last call. Asks the probe twice, 3 ms apart, before it returns false:
  // systemd and Slurm signal one process after the other. std::nullopt: the probe does not respond.
  std::optional<bool> Got(int signo);
  // The same, asked once.
  std::optional<bool> Has(int signo) { return Ask(signo); }
  pid_t pid() const { return pid_; }

 private:
  SignalProbe() = default;
  std::optional<bool> Ask(int signo);
  struct Pid {
    pid_t value = -1;
    Pid() = default;
    explicit Pid(pid_t v) : value(v) {}
    Pid(Pid&& other) noexcept : value(other.value) { other.value = -1; }
    Pid& operator=(Pid&& other) noexcept {
      value = other.value;
      other.value = -1;
      return *this;
    }
    operator pid_t() const { return value; }
  };
  Pid pid_;
  ScopedFd socket_;
};

class SignalSet {
 public:
  // Blocks the signals that the signalfd reads, ignores SIGPIPE and SIGXFSZ, and resets SIGCHLD to its default (with an
  // inherited SIG_IGN the kernel would reap the target). Threads that are created later inherit the mask.
  static absl::StatusOr<SignalSet> Install();

  int fd() const { return fd_.get(); }
  // Whether a signal is pending for Next.
  bool Pending() const;
  const OriginalSignals& original() const { return original_; }
  // Starts the probe. Call it directly before the target is started. The kernel signals the newest process of a group
  // first, so that the probe and the target receive a signal before the launcher does. Signals that are pending now
  // were sent before the target existed: the launcher forwards them, whatever the probe reports.
  void StartProbe();
  // The command replaces the launcher: it must not inherit a child.
  void StopProbe() { probe_.reset(); }
  pid_t probe_pid() const { return probe_ ? probe_->pid() : -1; }

  // The next pending signal, never waits. Counts interrupts in `state`.
  std::optional<SignalEvent> Next(SignalState& state);

 private:
  ScopedFd fd_;
  OriginalSignals original_;
  std::optional<SignalProbe> probe_;
  sigset_t before_target_;  // signals that were pending before the target existed
};

// Stops the launcher as the target was stopped (SIGTSTP, SIGTTIN, SIGTTOU), so that the shell sees its job stopped;
// returns after SIGCONT. Not for SIGSTOP: `kill -CONT` on the target alone would leave the launcher stopped.
void StopLike(int signo);

// Reads /proc/PID/status. The handler of tbprof's library counts as caught, too: the segment shows whose handler it is.
enum class Disposition { kDefault, kIgnored, kCaught, kUnknown };
Disposition DispositionOf(pid_t pid, int signo);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_SIGNALS_H_
