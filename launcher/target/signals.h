// SPDX-License-Identifier: Apache-2.0
//
// The launcher's signals: taken by signalfd in its ppoll loop, decided by a pure function, so that the target sees what
// it would see without tbprof.
//
//   absl::StatusOr<SignalSet> signals = SignalSet::Install();      // first of all, before any thread
//   signals->StartProbe();
//   ... TargetProcess::Spawn(..., signals->original());
//   while (auto event = signals->Next(state))                      // when signals->fd() is readable
//     if (event->forward) target.Signal(event->signo, event->value);
//
// Group-wide or not: a signal of a process carries no word about whom else it was sent to (`kill %1`, `kill 0` in a
// script, systemd, Slurm). The probe, a small process in the same process group with all signals blocked, is asked:
// what it got too, the target has got from the kernel and must not get twice.
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
#include "launcher/base/scoped.h"

namespace tbprof {

// What the launcher was started with, and the target must be started with. Trivially copyable, used between fork and
// exec.
struct OriginalSignals {
  sigset_t mask;
  std::array<bool, 65> ignored;  // by signal number

  static OriginalSignals Capture();
  void Restore() const;  // async-signal-safe; leaves ignored what was ignored, default all else
};

enum class SignalAction {
  kNone,            // the kernel gave it to the target as well, or it means nothing to us
  kForward,         // to the target
  kCapture,         // a window was asked for; see SignalEvent::forward
  kReap,            // SIGCHLD: look at the target's state
  kWarnConverting,  // the first interrupt after the target's end: say that a second one stops the conversion
  kStopConverting,  // keep the spool, print the recover command, leave
};

struct SignalState {
  int capture_signal = SIGUSR1;     // 0: none
  bool target_running = false;      // started and not yet reaped
  bool following = false;           // it has ended, and processes that are recorded live on
  bool target_stopped = false;      // without a probe SIGCONT is forwarded only then; Next clears it with each SIGCHLD
  bool target_has_handler = false;  // for capture_signal, its own
  int interrupts = 0;               // SIGINT, SIGTERM, SIGQUIT, SIGHUP seen so far; Next counts
};

struct SignalInfo {
  int signo = 0;
  int code = 0;  // si_code
  pid_t sender = 0;
  std::optional<bool> group_wide;  // whether the probe got it too; nothing: there is no probe to ask
  bool before_target = false;      // sent when there was no target yet
};

struct SignalDecision {
  SignalAction action = SignalAction::kNone;
  bool forward = false;
};
SignalDecision Decide(const SignalInfo& info, const SignalState& state);

struct SignalEvent {
  int signo = 0;
  bool from_terminal = false;  // by the kernel: the terminal sends to the whole foreground group
  pid_t sender_pid = 0;
  SignalAction action = SignalAction::kNone;
  bool forward = false;
  std::optional<int> value;  // of sigqueue
};

// A process of the same group that notices what the group is sent. It goes when the launcher goes.
class SignalProbe {
 public:
  static absl::StatusOr<SignalProbe> Start();
  SignalProbe(SignalProbe&&) = default;
  SignalProbe& operator=(SignalProbe&&) = default;
  ~SignalProbe();

  // Whether the probe got `signo` since the last question; asks twice, 3 ms apart, before it says no (systemd and
  // Slurm signal one process after the other). Nothing when the probe is gone.
  std::optional<bool> Got(int signo);
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
  // Blocks what is taken by signalfd, ignores SIGPIPE and SIGXFSZ, gives SIGCHLD its default (an inherited SIG_IGN
  // would reap the target behind our back). Threads made later inherit the mask.
  static absl::StatusOr<SignalSet> Install();

  int fd() const { return fd_.get(); }
  // Whether Next has one.
  bool Pending() const;
  const OriginalSignals& original() const { return original_; }
  // Starts the probe; to be called right before the target is started. Processes are signalled newest first, so that
  // a probe and a target younger than the launcher have been reached when the launcher hears. What is pending by now
  // came before the target: it gets it from us, whatever the probe says.
  void StartProbe();
  pid_t probe_pid() const { return probe_ ? probe_->pid() : -1; }

  // The next pending signal, never waits. Counts interrupts in `state`.
  std::optional<SignalEvent> Next(SignalState& state);

 private:
  ScopedFd fd_;
  OriginalSignals original_;
  std::optional<SignalProbe> probe_;
  sigset_t before_target_;  // pending when the target was not yet there
};

// Stops the launcher as the target was stopped (SIGTSTP, SIGTTIN, SIGTTOU), so that the shell sees its job stopped;
// returns after SIGCONT. Not for SIGSTOP: `kill -CONT` on the target alone would leave the launcher behind.
void StopLike(int signo);

// From /proc/PID/status. The library's own handler counts as caught: ask its segment whose it is.
enum class Disposition { kDefault, kIgnored, kCaught, kUnknown };
Disposition DispositionOf(pid_t pid, int signo);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_SIGNALS_H_
