// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/target_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "launcher/base/proc_files.h"
#include "launcher/base/proc_stat.h"
#include "launcher/base/stack_limit.h"
#include "launcher/base/start_thread.h"
#include "launcher/base/text.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "writer/base/parse_number.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::Duration ToDuration(const timeval& time) { return absl::Seconds(time.tv_sec) + absl::Microseconds(time.tv_usec); }

// Variables by which systemd says for which process something is: the command takes the launcher's place.
class PidVariables {
 public:
  // `environment`: of the command; must outlive this.
  explicit PidVariables(std::vector<char*>* environment) : environment_(*environment) {
    for (size_t i = 0; i < environment_.size() && environment_[i] != nullptr; ++i) {
      const std::string_view variable = environment_[i];
      const size_t name = variable.find('=');
      if (name == std::string_view::npos || variable.substr(name + 1) != std::to_string(getpid())) continue;
      for (const std::string_view known : {"LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"}) {
        if (variable.substr(0, name) == known) texts_.push_back({i, name + 1, std::string(variable) + kRoom});
      }
    }
  }
  // In the child: allocates nothing.
  void Set(pid_t pid) {
    for (Text& text : texts_) {
      char digits[16];
      size_t count = 0;
      for (pid_t rest = pid; rest > 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
      size_t at = text.value;
      while (count > 0) text.bytes[at++] = digits[--count];
      text.bytes[at] = '\0';
      environment_[text.index] = text.bytes.data();
    }
  }

 private:
  static constexpr char kRoom[] = "                ";
  struct Text {
    size_t index, value;
    std::string bytes;
  };
  std::vector<char*>& environment_;
  std::vector<Text> texts_;
};

ScopedFd OpenTerminal() { return ScopedFd(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)); }

// What has stopped a process.
enum class Stop {
  kNone,
  kUnknown,     // Linux before 5.17 does not report it; others not after its parent has waited for it
  kByTerminal,  // SIGTTIN or SIGTTOU
};

Stop StopOf(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat || stat->state != 'T') return Stop::kNone;
  const int signo = stat->last_field;
  if (signo == 0) return Stop::kUnknown;
  return signo == SIGTTIN || signo == SIGTTOU ? Stop::kByTerminal : Stop::kNone;
}

// Of the process and its descendants that are in `group`: of each, the children of its main thread are known.
constexpr int kMostGenerations = 8;
Stop StopBelow(pid_t pid, pid_t group, int generations) {
  Stop most = getpgid(pid) == group ? StopOf(pid) : Stop::kNone;
  if (generations == 0) return most;
  const std::string children = ReadText(StrCat("/proc/", pid, "/task/", pid, "/children"));
  for (const std::string_view child : Split(children, ' ')) {
    if (most == Stop::kByTerminal) break;
    if (const auto number = ParseNumber<pid_t>(child))
      most = std::max(most, StopBelow(*number, group, generations - 1));
  }
  return most;
}

// How long and how often the processes themselves are looked at after the probe has joined their group: what the
// terminal stopped before may take a while to stop on a busy machine.
constexpr uint64_t kLooksNs = 2'000'000'000, kLookNs = 50'000'000;
// How often if the probe does not answer.
constexpr uint64_t kLookWithoutProbeNs = 1'000'000'000;

// Whether the launcher's group is orphaned: its leader's parent, a shell, is in no other group of the session. Then
// nobody could continue it, and the kernel does not stop it.
bool GroupIsOrphaned() {
  const pid_t parent = getppid();
  return parent == 0 || getsid(parent) != getsid(0) || getpgid(parent) == getpgrp();
}

// wait4 returns the resource usage with the status; glibc's waitid has no parameter for it.
std::optional<TargetEnd> Reap(pid_t pid, int flags) {
  int status = 0;
  rusage usage = {};
  pid_t got;
  do {
    got = wait4(pid, &status, flags, &usage);
  } while (got < 0 && errno == EINTR);
  if (got != pid) return std::nullopt;
  TargetEnd end;
  end.signaled = WIFSIGNALED(status);
  end.code = end.signaled ? WTERMSIG(status) : WEXITSTATUS(status);
  end.core_dumped = end.signaled && WCOREDUMP(status);
  end.user_cpu = ToDuration(usage.ru_utime);
  end.system_cpu = ToDuration(usage.ru_stime);
  return end;
}

}  // namespace

std::optional<rlimit> RaiseDescriptorLimit() {
  rlimit before;
  if (getrlimit(RLIMIT_NOFILE, &before) != 0) return std::nullopt;
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) return std::nullopt;
  return before;
}

std::optional<rlimit> RaiseAddressSpaceLimit() {
  rlimit before;
  if (getrlimit(RLIMIT_AS, &before) != 0 || before.rlim_cur == RLIM_INFINITY) return std::nullopt;
  rlimit raised = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &raised) == 0) return before;
  raised = {before.rlim_max, before.rlim_max};
  return setrlimit(RLIMIT_AS, &raised) == 0 ? std::make_optional(before) : std::nullopt;
}

absl::StatusOr<TargetProcess> TargetProcess::Spawn(const SpawnRequest& request, int* exec_errno) {
  *exec_errno = 0;
  if (request.command.empty()) return InvalidArgument("no command to run");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable(StrCat("cannot make a pipe: ", strerror(errno)));
  ScopedFd reader(ends[0]);
  ScopedFd writer(ends[1]);
  // Created before fork: if other threads exist, the child may call only async-signal-safe functions.
  const std::vector<char*> arguments = Pointers(request.command);
  std::vector<char*> environment = Pointers(request.environment);
  PidVariables pids(&environment);
  const OriginalSignals signals = request.signals;
  const std::optional<rlimit> descriptors = request.descriptors, address_space = request.address_space;
  // `alarm 60; exec tbprof run ...`: a timer survives exec, but not fork, so the child sets it again.
  itimerval alarm = {};
  getitimer(ITIMER_REAL, &alarm);
  const bool has_alarm = timerisset(&alarm.it_value);
  // The signal at the death of the parent survives exec, too: it is the command's.
  int death_signal = 0;
  prctl(PR_GET_PDEATHSIG, &death_signal);
  const pid_t launcher = getpid();

  const pid_t pid = fork();
  if (pid < 0 && errno == EAGAIN) {
    return absl::ResourceExhaustedError(StrCat("cannot start a process: ", strerror(errno), "; ", kLimitOfProcesses));
  }
  if (pid < 0) return Unavailable(StrCat("cannot start a process: ", strerror(errno)));
  if (pid == 0) {
    if (has_alarm) setitimer(ITIMER_REAL, &alarm, nullptr);
    if (death_signal != 0) prctl(PR_SET_PDEATHSIG, death_signal);
    if (death_signal != 0 && getppid() != launcher) kill(getpid(), death_signal);
    pids.Set(getpid());
    if (descriptors) setrlimit(RLIMIT_NOFILE, &*descriptors);
    if (address_space) setrlimit(RLIMIT_AS, &*address_space);
    RestoreStackLimit();
    signals.Restore();
    execvpe(arguments[0], arguments.data(), environment.data());
    const int error = errno;
    (void)!write(writer.get(), &error, sizeof(error));
    _exit(127);
  }
  const itimerval no_alarm = {};
  if (has_alarm) setitimer(ITIMER_REAL, &no_alarm, nullptr);
  writer.Reset();
  int error = 0;
  ssize_t got;
  do {
    got = read(reader.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof(error))) {
    Reap(pid, 0);
    *exec_errno = error;
    return InvalidArgument(StrCat("cannot run ", PrintableUtf8(request.command[0]), ": ", strerror(error)));
  }
  // End of file: exec succeeded, or a signal killed the child before exec; the exit status shows which.
  TargetProcess target;
  target.pid_ = pid;
  target.pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  target.has_terminal_job_ = getpgrp() == getpid() && OpenTerminal().valid();
  return target;
}

int TargetProcess::Exec(const SpawnRequest& request) {
  const std::vector<char*> arguments = Pointers(request.command);
  const std::vector<char*> environment = Pointers(request.environment);
  request.signals.Restore();
  RestoreStackLimit();
  execvpe(arguments[0], arguments.data(), environment.data());
  return errno;
}

std::optional<TargetEnd> TargetProcess::Poll() {
  if (!end_) end_ = Reap(pid_, WNOHANG);
  return end_;
}

TargetEnd TargetProcess::Wait() {
  if (!end_) end_ = Reap(pid_, 0);
  if (!end_) {
    end_.emplace();  // reaped by other code: the status is unknown
    end_->code = kExitUsage;
  }
  return *end_;
}

std::optional<int> TargetProcess::PollStopped() {
  if (end_) return std::nullopt;
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid != pid_) {
    return std::nullopt;
  }
  return info.si_status;
}

bool TargetProcess::stopped() const {
  // waitid with WNOWAIT would not consume a stop, but would not report a stop that PollStopped has already consumed.
  return !end_ && SchedulerState(pid_) == 'T';
}

absl::Status TargetProcess::Signal(int signo, std::optional<int> value) {
  if (end_) return Unavailable("the target has ended");
  siginfo_t info = {};
  info.si_signo = signo;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = value.value_or(0);
  long result;
  if (pidfd_.valid()) {
    result = syscall(SYS_pidfd_send_signal, pidfd_.get(), signo, value ? &info : nullptr, 0);
  } else {
    // The target is not yet reaped, so the pid still belongs to it.
    result = value ? sigqueue(pid_, signo, info.si_value) : kill(pid_, signo);
  }
  if (result != 0) return Unavailable(StrCat("cannot signal ", pid_, ": ", strerror(errno)));
  return absl::OkStatus();
}

bool TargetProcess::leads_group() const {
  return !end_ && getpgrp() == getpid() && getpgid(pid_) == pid_ && getsid(pid_) == getsid(0);
}

void TargetProcess::Forward(const SignalEvent& event) {
  const bool stops = event.signo == SIGTSTP || event.signo == SIGTTIN || event.signo == SIGTTOU;
  if (stops && event.to_group && GroupIsOrphaned()) return;
  if (stops) asked_to_stop_ = true;
  if (event.signo == SIGCONT) asked_to_stop_ = false;
  if (event.to_group && leads_group()) {
    kill(-pid_, event.signo);
  } else {
    (void)Signal(event.signo, event.value);
  }
}

bool TargetProcess::LendTerminal(bool target_stopped) {
  if (!MayNeedTerminal() || !(target_stopped || UsesTerminal())) return false;
  const ScopedFd terminal = OpenTerminal();
  if (!terminal.valid() || tcgetpgrp(terminal.get()) != getpgrp()) return false;
  // SIGTTOU is blocked (SignalSet), so that this works in the background, too.
  if (tcsetpgrp(terminal.get(), pid_) != 0) return false;
  lent_ = true;
  kill(-pid_, SIGCONT);
  return true;
}

bool TargetProcess::UsesTerminal() {
  if (!std::exchange(probe_tried_, true)) {
    absl::StatusOr<SignalProbe> probe = SignalProbe::Start(pid_);
    if (probe.ok()) probe_.emplace(std::move(*probe));
  }
  // SIGCONT first: as long as it is pending, the probe calls stops overtaken. The answer shows that the probe has
  // joined the group: what was sent to that before, it does not know.
  const bool has_joined = probe_ && probe_->Has(SIGCONT).has_value();
  const std::optional<bool> reads = has_joined ? probe_->Has(SIGTTIN) : std::nullopt;
  const std::optional<bool> writes = reads ? probe_->Has(SIGTTOU) : std::nullopt;
  if (reads.value_or(false) || writes.value_or(false)) return true;
  const uint64_t now = ReadMonotonic();
  const bool is_first = looks_until_ns_ == 0;
  if (is_first) looks_until_ns_ = now + kLooksNs;
  if (asked_to_stop_ || now < next_look_ns_ || (writes && now > looks_until_ns_)) return false;
  next_look_ns_ = now + (writes ? kLookNs : kLookWithoutProbeNs);
  const Stop stop = StopBelow(pid_, pid_, kMostGenerations);
  return stop == Stop::kByTerminal || (stop == Stop::kUnknown && is_first);
}

bool TargetProcess::ContinueIfOrphaned() {
  if (!leads_group() || !GroupIsOrphaned()) return false;
  kill(-pid_, SIGCONT);
  return true;
}

void TargetProcess::StopLaunchersGroup(int signo) {
  if (lent_) kill(0, signo);
}

void TargetProcess::TakeTerminal() {
  probe_.reset();
  if (!std::exchange(lent_, false)) return;
  const ScopedFd terminal = OpenTerminal();
  if (terminal.valid() && tcgetpgrp(terminal.get()) == pid_) tcsetpgrp(terminal.get(), getpgrp());
  kill(0, SIGCONT);  // others of the pipeline, which the terminal may have stopped meanwhile
}

int ExecFailureStatus(int exec_errno) {
  return exec_errno == ENOENT || exec_errno == ENOTDIR ? kExitNotFound : kExitNotExecutable;
}

Environment TargetEnvironment(const Environment& environment, const std::string& library,
                              const std::vector<std::string>& additions) {
  Environment result = environment;
  auto set = [&result](std::string entry) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    size_t last = result.size();
    for (size_t i = 0; i < result.size(); ++i) {
      if (result[i].starts_with(name)) last = i;
    }
    if (last == result.size()) {
      result.push_back(std::move(entry));
    } else {
      result[last] = std::move(entry);
    }
  };
  if (!library.empty()) {
    // If the environment has several LD_PRELOAD entries, the loader uses the last one.
    const std::string name = StrCat(kPreloadVariable, "=");
    std::string preload = library;
    for (const std::string& entry : environment) {
      if (!entry.starts_with(name)) continue;
      const std::string theirs = entry.substr(name.size());
      preload = theirs.empty() ? library : StrCat(library, ":", theirs);
    }
    set(StrCat(name, preload));
  }
  for (const std::string& addition : additions) set(addition);
  return result;
}

int ShellStatus(const TargetEnd& end) { return end.signaled ? 128 + end.code : end.code; }

void ExitWithStatusOf(const TargetEnd& end) {
  fflush(nullptr);
  if (end.signaled) {
    // A core file of the launcher would replace the core file of the target. RLIMIT_CORE 0 does not prevent a dump to a
    // pipe in core_pattern; PR_SET_DUMPABLE 0 does.
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(end.code, &action, nullptr);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, end.code);
    kill(getpid(), end.code);
    sigprocmask(SIG_UNBLOCK, &mask, nullptr);
  }
  _exit(ShellStatus(end));
}

}  // namespace tbprof
