// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/signals.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"

namespace tbprof {
namespace {

// Signals that a user or a scheduler may send to the launcher, but intend for the target. Real-time signals are added
// at run time. Faults (SIGSEGV...) are not included: they are the launcher's own. Neither is SIGXCPU: the limit holds
// for each process separately.
constexpr int kTaken[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,   SIGUSR1,  SIGUSR2, SIGCONT, SIGTSTP, SIGTTIN,
                          SIGTTOU, SIGALRM, SIGPROF, SIGVTALRM, SIGWINCH, SIGIO,   SIGPWR,  SIGCHLD};

sigset_t TakenSet() {
  sigset_t set;
  sigemptyset(&set);
  for (int signo : kTaken) sigaddset(&set, signo);
  for (int signo = SIGRTMIN; signo <= SIGRTMAX; ++signo) sigaddset(&set, signo);
  return set;
}

bool IsInterrupt(int signo) { return signo == SIGINT || signo == SIGTERM || signo == SIGQUIT || signo == SIGHUP; }

// Signals that the kernel sends. The terminal's signals go to the whole foreground group.
bool FromKernel(const SignalInfo& info) { return info.code > 0; }

// Signals that the terminal sends to the foreground group. This is certain even if the probe started after the signal.
// SIGHUP is not included, because it can be sent to the session leader alone.
bool FromTerminal(const SignalInfo& info) {
  return FromKernel(info) && (info.signo == SIGINT || info.signo == SIGQUIT || info.signo == SIGTSTP ||
                              info.signo == SIGTTIN || info.signo == SIGTTOU || info.signo == SIGWINCH);
}

[[noreturn]] void SignalProbeMain(int socket, pid_t launcher, pid_t group) {
  prctl(PR_SET_NAME, "tbprof-probe");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(0);
  if (group != 0 && setpgid(0, group) != 0) _exit(0);
  // Closes all other descriptors: otherwise the reader of an inherited pipe would wait for the probe, too.
  if (socket != 0) {
    dup2(socket, 0);
    socket = 0;
  }
  if (syscall(SYS_close_range, 1u, ~0u, 0u) != 0) {
    for (int fd = 1; fd < 1024; ++fd) close(fd);
  }
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  uint8_t signo;
  for (;;) {
    const ssize_t size = recv(socket, &signo, 1, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != 1) _exit(0);
    // In the kernel, a stop signal removes a pending SIGCONT, and SIGCONT removes pending stop signals. If the opposite
    // signal is pending, the requested one has arrived or has been overtaken: forwarding it would undo the later one.
    sigset_t pending;
    sigpending(&pending);
    const bool stop = sigismember(&pending, SIGTSTP) == 1 || sigismember(&pending, SIGTTIN) == 1 ||
                      sigismember(&pending, SIGTTOU) == 1;
    const bool asked_stop = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
    const bool overtaken = (signo == SIGCONT && stop) || (asked_stop && sigismember(&pending, SIGCONT) == 1);
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, signo);
    const timespec now = {};
    const uint8_t answer = sigtimedwait(&asked, nullptr, &now) == signo || overtaken ? 1 : 0;
    if (send(socket, &answer, 1, MSG_NOSIGNAL) != 1) _exit(0);
  }
}

}  // namespace

OriginalSignals OriginalSignals::Capture() {
  OriginalSignals original;
  sigprocmask(SIG_SETMASK, nullptr, &original.mask);
  original.ignored.fill(false);
  for (int signo = 1; signo <= 64; ++signo) {
    struct sigaction action;
    if (sigaction(signo, nullptr, &action) != 0) continue;  // 32 and 33 are glibc's own
    original.ignored[static_cast<size_t>(signo)] = action.sa_handler == SIG_IGN;
  }
  return original;
}

void OriginalSignals::Restore() const {
  for (int signo = 1; signo <= 64; ++signo) {
    if (signo == SIGKILL || signo == SIGSTOP) continue;
    struct sigaction action;
    if (sigaction(signo, nullptr, &action) != 0) continue;
    const auto wanted = ignored[static_cast<size_t>(signo)] ? SIG_IGN : SIG_DFL;
    if (action.sa_handler == wanted) continue;
    action = {};
    action.sa_handler = wanted;
    sigaction(signo, &action, nullptr);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

SignalDecision Decide(const SignalInfo& info, const SignalState& state) {
  if (info.signo == SIGCHLD) return {SignalAction::kReap, false};
  // `interrupts` includes this signal.
  if (!state.target_running) {
    if (IsInterrupt(info.signo)) {
      return {state.interrupts >= 2 ? SignalAction::kStopConverting : SignalAction::kWarnConverting, false};
    }
    if (state.following && info.signo == state.capture_signal) return {SignalAction::kCapture, false};
    return {SignalAction::kNone, false};
  }
  const bool to_group = !info.before_target && (FromTerminal(info) || info.group_wide.value_or(FromKernel(info)));
  const bool reaches_target = to_group && !state.target_leads_group;
  if (info.signo == state.capture_signal) {
    return {SignalAction::kCapture, state.target_has_handler && !reaches_target, to_group};
  }
  if (reaches_target) return {SignalAction::kNone, false};
  // The shell's `fg` sends SIGCONT to the group. Without a probe, a running target is assumed to have received it.
  if (info.signo == SIGCONT && !info.group_wide && !state.target_stopped) return {SignalAction::kNone, false};
  return {SignalAction::kForward, true, to_group};
}

absl::StatusOr<SignalProbe> SignalProbe::Start(pid_t group) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unavailable(StrCat("cannot make a socket pair: ", strerror(errno)));
  }
  SignalProbe probe;
  probe.socket_.Reset(ends[0]);
  ScopedFd theirs(ends[1]);
  const pid_t launcher = getpid();
  // Signals are blocked before the fork, so that no signal to the group has its default action in the probe.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) SignalProbeMain(theirs.get(), launcher, group);
  const int cause = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return Unavailable(StrCat("cannot start a process: ", strerror(cause)));
  probe.pid_ = Pid(pid);
  return probe;
}

SignalProbe::~SignalProbe() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  int status;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::optional<bool> SignalProbe::Ask(int signo) {
  if (!socket_.valid()) return std::nullopt;
  const auto question = static_cast<uint8_t>(signo);
  uint8_t answer = 0;
  if (send(socket_.get(), &question, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) {
    pollfd ready = {socket_.get(), POLLIN, 0};
    int result;
    do {
      result = poll(&ready, 1, 1000);
    } while (result < 0 && errno == EINTR);
    if (result == 1 && recv(socket_.get(), &answer, 1, MSG_DONTWAIT) == 1) return answer == 1;
  }
  // The probe was killed, is stopped, or gets no CPU time. It is not used again: a late answer would be mistaken for
  // the answer to the next question.
  socket_.Reset();
  return std::nullopt;
}

std::optional<bool> SignalProbe::Got(int signo) {
  const std::optional<bool> first = Ask(signo);
  if (!first || *first) return first;
  const timespec pause = {0, 3'000'000};
  nanosleep(&pause, nullptr);
  return Ask(signo);
}

absl::StatusOr<SignalSet> SignalSet::Install() {
  SignalSet set;
  sigemptyset(&set.before_target_);
  set.original_ = OriginalSignals::Capture();
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, nullptr);
  const sigset_t taken = TakenSet();
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  set.fd_.Reset(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!set.fd_.valid()) {
    const int cause = errno;
    set.original_.Restore();
    return Unavailable(StrCat("cannot take signals: ", strerror(cause)));
  }
  return set;
}

void SignalSet::StartProbe() {
  absl::StatusOr<SignalProbe> probe = SignalProbe::Start();
  if (probe.ok()) probe_.emplace(std::move(*probe));
  sigpending(&before_target_);
}

bool SignalSet::Pending() const {
  pollfd readable{fd_.get(), POLLIN, 0};
  return poll(&readable, 1, 0) > 0;
}

std::optional<SignalEvent> SignalSet::Next(SignalState& state) {
  signalfd_siginfo got;
  ssize_t size;
  do {
    size = read(fd_.get(), &got, sizeof(got));
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof(got))) return std::nullopt;
  SignalInfo info;
  info.signo = static_cast<int>(got.ssi_signo);
  info.code = got.ssi_code;
  // Asks the probe at every signal: a signal that stays pending there would falsify a later answer.
  if (info.signo != SIGCHLD && probe_) info.group_wide = probe_->Got(info.signo);
  if (sigismember(&before_target_, info.signo) == 1) {
    sigdelset(&before_target_, info.signo);
    info.before_target = true;
  }
  if (IsInterrupt(info.signo) && !state.target_running) ++state.interrupts;
  // The caller may now stop together with the target. After that, a `true` is stale, and a forwarded SIGCONT would undo
  // the next stop.
  if (info.signo == SIGCHLD) state.target_stopped = false;

  const SignalDecision decision = Decide(info, state);
  SignalEvent event;
  event.signo = info.signo;
  event.action = decision.action;
  event.forward = decision.forward;
  event.to_group = decision.to_group;
  if (info.code == SI_QUEUE) event.value = got.ssi_int;
  return event;
}

void StopLike(int signo) {
  // In an orphaned process group the kernel drops these three signals; then a target in the group has not stopped
  // either, and TargetProcess::ContinueIfOrphaned continues one that has left it.
  struct sigaction action = {};
  struct sigaction before;
  action.sa_handler = SIG_DFL;
  sigaction(signo, &action, &before);
  sigset_t only;
  sigset_t mask;
  sigemptyset(&only);
  sigaddset(&only, signo);
  kill(getpid(), signo);
  sigprocmask(SIG_UNBLOCK, &only, &mask);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  sigaction(signo, &before, nullptr);
}

Disposition DispositionOf(pid_t pid, int signo) {
  if (signo < 1 || signo > 64) return Disposition::kUnknown;
  const std::string status = ReadText(StrCat("/proc/", pid, "/status"));
  const std::optional<bool> caught = StatusBit(status, "SigCgt", signo - 1);
  const std::optional<bool> ignored = StatusBit(status, "SigIgn", signo - 1);
  if (!caught || !ignored) return Disposition::kUnknown;
  return *caught ? Disposition::kCaught : *ignored ? Disposition::kIgnored : Disposition::kDefault;
}

}  // namespace tbprof
