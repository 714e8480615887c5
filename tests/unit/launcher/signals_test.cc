// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "launcher/target/target_process.h"

namespace tbprof {
namespace {

constexpr char kHelperVariable[] = "TBPROF_TEST_SIGNAL_HELPER";

// The target of these tests is this program: with the variable set, it only prints each signal that it gets. `stop`: it
// does not handle SIGTSTP, and is stopped by it.
__attribute__((constructor)) void MaybeActAsTarget() {
  const char* mode = getenv(kHelperVariable);
  if (mode == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t all;
  sigfillset(&all);
  if (strcmp(mode, "stop") == 0) sigdelset(&all, SIGTSTP);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  dprintf(1, "ready\n");
  for (;;) {
    siginfo_t info;
    if (sigwaitinfo(&all, &info) < 0) continue;
    if (info.si_signo == SIGRTMAX) _exit(0);
    dprintf(1, "%d %d\n", info.si_signo, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
  }
}

struct DecideCase {
  const char* what;
  SignalInfo info;
  SignalState state;
  SignalAction action;
  bool forward;
  bool to_group = false;
};

SignalState Running() {
  SignalState state;
  state.target_running = true;
  return state;
}
SignalState With(SignalState state, bool SignalState::*field) {
  state.*field = true;
  return state;
}
SignalState CaptureBy(int signo) {
  SignalState state = Running();
  state.capture_signal = signo;
  return state;
}
SignalState Ended(int interrupts) {
  SignalState state;
  state.interrupts = interrupts;
  return state;
}
SignalInfo Terminal(int signo) { return {signo, SI_KERNEL, std::nullopt}; }
SignalInfo Sent(int signo) { return {signo, SI_USER, std::nullopt}; }
SignalInfo Group(int signo) { return {signo, SI_USER, true}; }
SignalInfo Alone(int signo) { return {signo, SI_USER, false}; }

TEST(DecideTest, EachSignalAndState_HasItsAction) {
  constexpr SignalAction kNone = SignalAction::kNone;
  constexpr SignalAction kForward = SignalAction::kForward;
  constexpr SignalAction kCapture = SignalAction::kCapture;
  const SignalState leader = With(Running(), &SignalState::target_leads_group);
  const std::vector<DecideCase> cases = {
      {"^C", Terminal(SIGINT), Running(), kNone, false},
      {"^\\", Terminal(SIGQUIT), Running(), kNone, false},
      {"^Z", Terminal(SIGTSTP), Running(), kNone, false},
      {"resize", Terminal(SIGWINCH), Running(), kNone, false},
      {"^C before the probe began", {SIGINT, SI_KERNEL, false}, Running(), kNone, false},
      {"hang-up by the kernel", Terminal(SIGHUP), Running(), kNone, false},
      {"hang-up to the session leader alone", {SIGHUP, SI_KERNEL, false}, Running(), kForward, true},
      {"read in the background", Terminal(SIGTTIN), Running(), kNone, false},
      {"kill -INT tbprof", Sent(SIGINT), Running(), kForward, true},
      {"kill -QUIT tbprof", Sent(SIGQUIT), Running(), kForward, true},
      {"kill tbprof", Sent(SIGTERM), Running(), kForward, true},
      {"kill -HUP tbprof", Sent(SIGHUP), Running(), kForward, true},
      {"kill -TSTP tbprof", Sent(SIGTSTP), Running(), kForward, true},
      {"kill -WINCH tbprof", Sent(SIGWINCH), Running(), kForward, true},
      {"kill -ALRM tbprof", Sent(SIGALRM), Running(), kForward, true},
      {"kill -USR2 tbprof", Sent(SIGUSR2), Running(), kForward, true},
      {"kill -RTMIN tbprof", Sent(SIGRTMIN), Running(), kForward, true},
      {"sigqueue", {SIGTERM, SI_QUEUE, false}, Running(), kForward, true},
      {"tgkill", {SIGTERM, SI_TKILL, false}, Running(), kForward, true},
      {"kill %1", Group(SIGTERM), Running(), kNone, false},
      {"kill -INT -PGID", Group(SIGINT), Running(), kNone, false},
      {"kill tbprof, probe asked", Alone(SIGTERM), Running(), kForward, true},
      {"fg, no probe", Sent(SIGCONT), Running(), kNone, false},
      {"fg", Group(SIGCONT), Running(), kNone, false},
      {"fg, target not yet on", Group(SIGCONT), With(Running(), &SignalState::target_stopped), kNone, false},
      {"kill -CONT tbprof", Alone(SIGCONT), Running(), kForward, true},
      {"kill -CONT tbprof, no probe, target stopped", Sent(SIGCONT), With(Running(), &SignalState::target_stopped),
       kForward, true},
      {"capture", Sent(SIGUSR1), Running(), kCapture, false},
      {"capture, target has a handler", Alone(SIGUSR1), With(Running(), &SignalState::target_has_handler), kCapture,
       true},
      {"capture, to the group", Group(SIGUSR1), With(Running(), &SignalState::target_has_handler), kCapture, false},
      {"capture by USR2", Sent(SIGUSR2), CaptureBy(SIGUSR2), kCapture, false},
      {"USR1 when USR2 captures", Sent(SIGUSR1), CaptureBy(SIGUSR2), kForward, true},
      {"USR1 when nothing captures", Sent(SIGUSR1), CaptureBy(0), kForward, true},
      {"^C, target in a group of its own", Terminal(SIGINT), leader, kForward, true, true},
      {"^Z, target in a group of its own", Terminal(SIGTSTP), leader, kForward, true, true},
      {"kill -TERM -PGID, target in a group of its own", Group(SIGTERM), leader, kForward, true, true},
      {"fg, target in a group of its own", Group(SIGCONT), leader, kForward, true, true},
      {"kill tbprof, target in a group of its own", Alone(SIGTERM), leader, kForward, true, false},
      {"capture to the group, target in its own has a handler", Group(SIGUSR1),
       With(leader, &SignalState::target_has_handler), kCapture, true, true},
      {"child", {SIGCHLD, CLD_EXITED, std::nullopt}, Running(), SignalAction::kReap, false},
      {"child after the end", {SIGCHLD, CLD_EXITED, std::nullopt}, Ended(0), SignalAction::kReap, false},
      {"first ^C while converting", Terminal(SIGINT), Ended(1), SignalAction::kWarnConverting, false},
      {"second ^C while converting", Terminal(SIGINT), Ended(2), SignalAction::kStopConverting, false},
      {"second TERM while converting", Sent(SIGTERM), Ended(2), SignalAction::kStopConverting, false},
      {"USR1 after the end", Sent(SIGUSR1), Ended(0), kNone, false},
      {"USR1 after the end, processes live on", Sent(SIGUSR1), With(Ended(0), &SignalState::following), kCapture,
       false},
      {"USR2 after the end, processes live on", Sent(SIGUSR2), With(Ended(0), &SignalState::following), kNone, false},
      {"WINCH after the end", Terminal(SIGWINCH), Ended(5), kNone, false},
  };
  for (const DecideCase& one : cases) {
    const SignalDecision decision = Decide(one.info, one.state);
    EXPECT_EQ(decision.action, one.action) << one.what;
    EXPECT_EQ(decision.forward, one.forward) << one.what;
    if (decision.forward) EXPECT_EQ(decision.to_group, one.to_group) << one.what;
  }
}

// A minimal launcher loop. It prints its actions to descriptor 3 if that is open.
[[noreturn]] void RunLauncher(const std::string& mode, int actions, bool probe) {
  absl::StatusOr<SignalSet> signals = SignalSet::Install();
  if (!signals.ok()) _exit(101);
  Environment environment = CurrentEnvironment();
  environment.push_back(std::string(kHelperVariable) + "=" + mode);
  int error;
  if (probe) signals->StartProbe();
  absl::StatusOr<TargetProcess> target =
      TargetProcess::Spawn({{"/proc/self/exe"}, environment, signals->original()}, &error);
  if (!target.ok()) _exit(102);
  dprintf(actions, "up %d\n", target->pid());
  SignalState state;
  state.target_running = true;
  std::optional<TargetEnd> end;
  while (!(end = target->Poll())) {
    pollfd ready[2] = {{signals->fd(), POLLIN, 0}, {target->pidfd(), POLLIN, 0}};
    ppoll(ready, 2, nullptr, nullptr);
    state.target_stopped = target->stopped();
    while (std::optional<SignalEvent> event = signals->Next(state)) {
      if (event->forward) (void)target->Signal(event->signo, event->value);
      if (event->action == SignalAction::kCapture) dprintf(actions, "capture\n");
      if (event->action == SignalAction::kReap) {
        const std::optional<int> stop = target->PollStopped();
        if (stop && *stop == SIGTSTP) {
          StopLike(*stop);
          dprintf(actions, "continued\n");
        }
      }
    }
  }
  signals = absl::CancelledError();
  ExitWithStatusOf(*end);
}

class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}
  std::string Next() {
    for (;;) {
      const size_t end = text_.find('\n');
      if (end != std::string::npos) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      pollfd ready = {fd_.get(), POLLIN, 0};
      if (poll(&ready, 1, 30000) != 1) return "(nothing came)";
      char buffer[512];
      const ssize_t size = read(fd_.get(), buffer, sizeof(buffer));
      if (size <= 0) return "(end)";
      for (ssize_t i = 0; i < size; ++i) {
        if (buffer[i] != '\r') text_.push_back(buffer[i]);
      }
    }
  }

 private:
  ScopedFd fd_;
  std::string text_;
};

class Launched {
 public:
  Launched(const std::string& mode, bool probe) : output_(MakePipe(&output_end_)), actions_(MakePipe(&actions_end_)) {
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(output_end_, 1);
      RunLauncher(mode, actions_end_, probe);
    }
    close(output_end_);
    close(actions_end_);
    const std::string up = actions_.Next();
    EXPECT_EQ(up.substr(0, 3), "up ");
    target_ = atoi(up.c_str() + 3);
    EXPECT_EQ(output_.Next(), "ready");
  }
  ~Launched() {
    kill(target_, SIGKILL);
    kill(pid_, SIGCONT);
    int status;
    waitpid(pid_, &status, 0);
  }
  // The signals that the target gets until a marker signal, which is sent to the launcher now: the launcher takes lower
  // numbers first and forwards in order.
  std::string Got() {
    EXPECT_EQ(kill(pid_, SIGRTMAX - 1), 0);
    std::string all;
    for (;;) {
      const std::string line = output_.Next();
      if (line == std::to_string(SIGRTMAX - 1) + " 0") return all;
      all += (all.empty() ? "" : ",") + line.substr(0, line.find(' '));
      if (line[0] == '(') return all;
    }
  }
  pid_t pid() const { return pid_; }
  pid_t target() const { return target_; }
  Lines& output() { return output_; }
  Lines& actions() { return actions_; }

 private:
  static int MakePipe(int* writer) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    *writer = ends[1];
    return ends[0];
  }
  int output_end_ = -1;
  int actions_end_ = -1;
  Lines output_;
  Lines actions_;
  pid_t pid_ = -1;
  pid_t target_ = -1;
};

const int kSent[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR2, SIGWINCH, SIGCONT, SIGALRM, SIGTSTP};

TEST(SignalSetTest, EachSignal_ReachesTheTargetOnce) {
  Launched launched("count", true);
  for (int round = 0; round < 5; ++round) {
    for (int signo : kSent) {
      ASSERT_EQ(kill(launched.pid(), signo), 0);
      EXPECT_EQ(launched.Got(), std::to_string(signo)) << "to the launcher";
      ASSERT_EQ(kill(-launched.pid(), signo), 0);
      EXPECT_EQ(launched.Got(), std::to_string(signo)) << "to the group";
      ASSERT_EQ(kill(launched.target(), signo), 0);
      EXPECT_EQ(launched.Got(), std::to_string(signo)) << "to the target";
    }
  }
}

TEST(SignalSetTest, EachProcessOfAGroupSignalled_CountsAsGroup) {
  Launched launched("count", true);
  // Like systemd: signals all processes of a control group, in the order of their pids.
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(kill(launched.pid(), SIGTERM), 0);
    ASSERT_EQ(kill(launched.target(), SIGTERM), 0);
    const std::string children =
        "/proc/" + std::to_string(launched.pid()) + "/task/" + std::to_string(launched.pid()) + "/children";
    FILE* file = fopen(children.c_str(), "re");
    if (file == nullptr) GTEST_SKIP() << "no " << children;
    int child;
    while (fscanf(file, "%d", &child) == 1) {
      if (child != launched.target()) kill(child, SIGTERM);
    }
    fclose(file);
    EXPECT_EQ(launched.Got(), std::to_string(SIGTERM));
  }
}

TEST(SignalSetTest, GroupSignalBeforeTheTarget_IsForwarded) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    absl::StatusOr<SignalSet> signals = SignalSet::Install();
    if (!signals.ok()) _exit(1);
    kill(0, SIGUSR2);
    signals->StartProbe();
    SignalState state;
    state.target_running = true;
    std::optional<SignalEvent> event = signals->Next(state);
    if (!event || event->signo != SIGUSR2 || !event->forward) _exit(2);
    kill(0, SIGUSR2);
    event = signals->Next(state);
    if (!event || event->signo != SIGUSR2 || event->forward) _exit(3);
    kill(getpid(), SIGUSR2);
    event = signals->Next(state);
    if (!event || event->signo != SIGUSR2 || !event->forward) _exit(4);
    signals = absl::CancelledError();
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SignalSetTest, NoSignalProbe_SenderDecides) {
  Launched launched("count", false);
  for (int signo : kSent) {
    ASSERT_EQ(kill(launched.pid(), signo), 0);
    EXPECT_EQ(launched.Got(), signo == SIGCONT ? "" : std::to_string(signo));
  }
}

TEST(SignalSetTest, ValueOfSigqueue_IsForwarded) {
  Launched launched("count", true);
  ASSERT_EQ(sigqueue(launched.pid(), SIGUSR2, {.sival_int = 77}), 0);
  EXPECT_EQ(launched.output().Next(), std::to_string(SIGUSR2) + " 77");
}

TEST(SignalSetTest, CaptureSignal_IsNotForwarded) {
  Launched launched("count", true);
  ASSERT_EQ(kill(launched.pid(), SIGUSR1), 0);
  EXPECT_EQ(launched.actions().Next(), "capture");
  EXPECT_EQ(launched.Got(), "");
}

TEST(SignalSetTest, ManyCaptureSignals_KillNoProcess) {
  Launched launched("count", true);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(kill(launched.pid(), SIGUSR1), 0);
  EXPECT_EQ(launched.actions().Next(), "capture");
  EXPECT_EQ(launched.Got(), "");
}

TEST(SignalSetTest, SignalProbe_EndsWithTheLauncher) {
  pid_t probe = 0;
  {
    absl::StatusOr<SignalProbe> started = SignalProbe::Start();
    ASSERT_TRUE(started.ok());
    probe = started->pid();
    EXPECT_EQ(kill(probe, 0), 0);
    EXPECT_EQ(started->Got(SIGTERM), false);
    for (int i = 0; i < 100; ++i) {
      kill(probe, SIGTERM);
      EXPECT_EQ(started->Got(SIGTERM), true);
      EXPECT_EQ(started->Got(SIGINT), false);
    }
    kill(probe, SIGKILL);
    EXPECT_EQ(started->Got(SIGTERM), std::nullopt);
    EXPECT_EQ(started->Got(SIGTERM), std::nullopt);
  }
  EXPECT_EQ(kill(probe, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// A stop signal cancels a pending SIGCONT in the kernel, and SIGCONT cancels a pending stop signal: `^Z` right after
// `fg`.
TEST(SignalSetTest, SignalProbe_OvertakenSignal_IsCounted) {
  absl::StatusOr<SignalProbe> probe = SignalProbe::Start();
  ASSERT_TRUE(probe.ok());
  for (int stop : {SIGTSTP, SIGTTIN, SIGTTOU}) {
    kill(probe->pid(), SIGCONT);
    kill(probe->pid(), stop);
    EXPECT_EQ(probe->Got(SIGCONT), true) << stop;
    EXPECT_EQ(probe->Got(stop), true) << stop;
    kill(probe->pid(), stop);
    kill(probe->pid(), SIGCONT);
    EXPECT_EQ(probe->Got(stop), true) << stop;
    EXPECT_EQ(probe->Got(SIGCONT), true) << stop;
    EXPECT_EQ(probe->Got(SIGCONT), false) << stop;
    EXPECT_EQ(probe->Got(stop), false) << stop;
  }
}

TEST(SignalSetTest, SignalProbe_LauncherIsKilled_Ends) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    absl::StatusOr<SignalProbe> started = SignalProbe::Start();
    const pid_t pid = started->pid();
    (void)!write(ends[1], &pid, sizeof(pid));
    started->Got(SIGTERM);
    kill(getpid(), SIGKILL);
  }
  pid_t probe;
  ASSERT_EQ(read(ends[0], &probe, sizeof(probe)), static_cast<ssize_t>(sizeof(probe)));
  close(ends[1]);
  // The probe holds no copy of the pipe: the end of file is caused by the launcher's death.
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  waitpid(launcher, nullptr, 0);
  for (int i = 0; i < 3000; ++i) {
    std::string path = "/proc/" + std::to_string(probe) + "/stat";
    FILE* file = fopen(path.c_str(), "re");
    if (file == nullptr) return;
    char state = '?';
    (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    if (state == 'Z' || state == 'X') return;  // its new parent may reap it late
    usleep(10000);
  }
  ADD_FAILURE() << "the probe lives on";
}

TEST(SignalSetTest, SignalsWhileInstalling_AreNotLost) {
  const pid_t pid = fork();
  if (pid == 0) {
    absl::StatusOr<SignalSet> signals = SignalSet::Install();
    SignalState state;
    state.target_running = true;
    if (signals->Next(state)) _exit(1);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGHUP);
    int seen = 0;
    while (std::optional<SignalEvent> event = signals->Next(state)) {
      seen += event->signo;
      if (!event->forward) _exit(2);
    }
    _exit(seen == SIGTERM + SIGHUP && state.interrupts == 0 ? 0 : 3);
  }
  int status;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

// A shell on a pseudo-terminal, with the launcher as its foreground job.
class OnTerminal {
 public:
  explicit OnTerminal(const std::string& mode) {
    int reports[2];
    EXPECT_EQ(pipe2(reports, O_CLOEXEC), 0);
    int master;
    shell_ = forkpty(&master, nullptr, nullptr, nullptr);
    if (shell_ == 0) Shell(mode, reports[1]);
    close(reports[1]);
    master_.Reset(master);
    output_ = std::make_unique<Lines>(dup(master));
    reports_ = std::make_unique<Lines>(reports[0]);
    EXPECT_EQ(reports_->Next().substr(0, 3), "up ");
    EXPECT_EQ(output_->Next(), "ready");
  }
  ~OnTerminal() {
    kill(shell_, SIGKILL);
    waitpid(shell_, nullptr, 0);
  }
  void Type(char key) { EXPECT_EQ(write(master_.get(), &key, 1), 1); }
  std::string Output() {
    std::string line = output_->Next();
    if (line.size() > 2 && line[0] == '^') line.erase(0, 2);  // the echo of the key
    return line;
  }
  Lines& reports() { return *reports_; }
  int master() const { return master_.get(); }

 private:
  [[noreturn]] static void Shell(const std::string& mode, int reports) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTTOU, SIG_IGN);
    const pid_t job = fork();
    if (job == 0) {
      setpgid(0, 0);
      tcsetpgrp(0, getpid());
      signal(SIGTTOU, SIG_DFL);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      RunLauncher(mode, reports, true);
    }
    for (;;) {
      int status;
      if (waitpid(job, &status, WUNTRACED) != job) continue;
      if (!WIFSTOPPED(status)) {
        dprintf(reports, "job ended\n");
        _exit(0);
      }
      tcsetpgrp(0, getpid());
      dprintf(reports, "job stopped by %d\n", WSTOPSIG(status));
      tcsetpgrp(0, job);
      kill(-job, SIGCONT);
    }
  }

  pid_t shell_;
  ScopedFd master_;
  std::unique_ptr<Lines> output_;
  std::unique_ptr<Lines> reports_;
};

TEST(TerminalTest, Keys_ReachTheTargetOnce) {
  OnTerminal terminal("count");
  for (int round = 0; round < 3; ++round) {
    terminal.Type('\x03');
    EXPECT_EQ(terminal.Output(), std::to_string(SIGINT) + " 0");
    terminal.Type('\x1c');
    EXPECT_EQ(terminal.Output(), std::to_string(SIGQUIT) + " 0");
    const winsize size = {40, static_cast<unsigned short>(100 + round), 0, 0};
    ASSERT_EQ(ioctl(terminal.master(), TIOCSWINSZ, &size), 0);
    EXPECT_EQ(terminal.Output(), std::to_string(SIGWINCH) + " 0");
  }
}

TEST(TerminalTest, Stop_LauncherStopsAndContinuesWithTheTarget) {
  OnTerminal terminal("stop");
  for (int round = 0; round < 3; ++round) {
    terminal.Type('\x1a');
    EXPECT_EQ(terminal.reports().Next(), "job stopped by " + std::to_string(SIGTSTP));
    EXPECT_EQ(terminal.reports().Next(), "continued");
    // Once: the shell's signal to the group.
    EXPECT_EQ(terminal.Output(), std::to_string(SIGCONT) + " 0");
    terminal.Type('\x03');
    EXPECT_EQ(terminal.Output(), std::to_string(SIGINT) + " 0");
  }
}

TEST(DispositionOfTest, OwnProcess_DispositionIsRead) {
  const auto before = signal(SIGUSR2, SIG_IGN);
  EXPECT_EQ(DispositionOf(getpid(), SIGUSR2), Disposition::kIgnored);
  signal(SIGUSR2, [](int) {});
  EXPECT_EQ(DispositionOf(getpid(), SIGUSR2), Disposition::kCaught);
  signal(SIGUSR2, SIG_DFL);
  EXPECT_EQ(DispositionOf(getpid(), SIGUSR2), Disposition::kDefault);
  signal(SIGUSR2, before);
  EXPECT_EQ(DispositionOf(getpid(), 0), Disposition::kUnknown);
  EXPECT_EQ(DispositionOf(getpid(), 65), Disposition::kUnknown);
  EXPECT_EQ(DispositionOf(0x7fffffff, SIGUSR1), Disposition::kUnknown);
}

}  // namespace
}  // namespace tbprof
