// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/target_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace tbprof {
namespace {

using Words = std::vector<std::string>;

// Runs `body` in a child with its standard output in a pipe; returns what was printed and the wait status.
std::pair<std::string, int> InChild(const std::function<void()>& body) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    body();
    _exit(111);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = read(ends[0], buffer, sizeof(buffer))) > 0) text.append(buffer, static_cast<size_t>(size));
  close(ends[0]);
  int status = -1;
  waitpid(pid, &status, 0);
  return {text, status};
}

[[noreturn]] void ExecBare(const Words& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(110);
}

// Runs the command like the launcher, without recording.
[[noreturn]] void RunLikeTbprof(const Words& command, bool threads = false) {
  absl::StatusOr<SignalSet> signals = SignalSet::Install();
  if (!signals.ok()) _exit(109);
  std::vector<std::thread> busy;
  for (int i = 0; threads && i < 3; ++i) {
    busy.emplace_back([] {
      for (;;) delete new std::string(1000, 'x');
    });
  }
  const ScopedFd own(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int error = 0;
  absl::StatusOr<TargetProcess> target =
      TargetProcess::Spawn({command, CurrentEnvironment(), signals->original()}, &error);
  if (!target.ok()) _exit(ExecFailureStatus(error));
  ExitWithStatusOf(target->Wait());
}

void ExpectSameAsBare(
    const Words& command, const std::function<void()>& prepare = [] {}) {
  const auto bare = InChild([&] {
    prepare();
    ExecBare(command);
  });
  const auto launched = InChild([&] {
    prepare();
    RunLikeTbprof(command);
  });
  EXPECT_EQ(bare.first, launched.first);
  EXPECT_EQ(bare.second & ~0x80, launched.second & ~0x80);  // 0x80: a core file was written
  EXPECT_NE(bare.first, "");
}

const Words kSignalState = {"grep",
                            "^Sig[BIC]\\|^ShdPnd\\|^NoNewPrivs\\|^Seccomp\\|^Cpus_allowed:", "/proc/self/status"};

TEST(TargetProcessTest, SignalState_IsUnchanged) {
  ExpectSameAsBare(kSignalState);
  ExpectSameAsBare(kSignalState, [] {
    for (int signo : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE, SIGXFSZ, SIGCHLD, SIGUSR1, SIGRTMIN + 3})
      signal(signo, SIG_IGN);
  });
  ExpectSameAsBare(kSignalState, [] {
    sigset_t mask;
    sigemptyset(&mask);
    for (int signo : {SIGTERM, SIGUSR2, SIGCHLD, SIGRTMAX}) sigaddset(&mask, signo);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
  });
  ExpectSameAsBare(kSignalState, [] {
    sigset_t mask;
    sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
  });
}

TEST(TargetProcessTest, Descriptors_AreUnchanged) {
  // The descriptor that ls opens itself has the same number in both runs.
  const Words list = {"ls", "-1", "/proc/self/fd"};
  ExpectSameAsBare(list);
  ExpectSameAsBare(list, [] {
    fcntl(open("/dev/null", O_RDONLY), F_DUPFD, 17);
    close(0);
  });
  ExpectSameAsBare({"sh", "-c", "echo a; echo b >&9"}, [] { dup2(1, 9); });
}

TEST(TargetProcessTest, LimitsUmaskDirectoryGroupAndNice_AreUnchanged) {
  ExpectSameAsBare({"sh", "-c", "ulimit -a; ulimit -Ha; umask; pwd; nice"}, [] {
    umask(0027);
    const rlimit files = {64, 64};
    setrlimit(RLIMIT_NOFILE, &files);
    const rlimit core = {4096, 8192};
    setrlimit(RLIMIT_CORE, &core);
    if (chdir("/usr") != 0 || nice(3) == -1) _exit(108);
  });
  // pgrp and session (fields 5 and 6 behind the name), and no new process group.
  const auto [text, status] = InChild([] {
    dprintf(1, "%d %d\n", getpgrp(), getsid(0));
    RunLikeTbprof({"sh", "-c", "set -- $(cat /proc/$$/stat); echo $5 $6"});
  });
  const size_t line = text.find('\n');
  ASSERT_NE(line, std::string::npos);
  EXPECT_EQ(text.substr(0, line + 1), text.substr(line + 1));
  EXPECT_EQ(status, 0);
}

TEST(TargetProcessTest, EnvironmentAndWords_AreUnchanged) {
  ExpectSameAsBare({"env", "-0"});
  ExpectSameAsBare({"printf", "[%s]", "", "a\nb", "\xff\xfe", "--logdir=/x", "--", "-h"});
}

// The signal that the kernel sends when the parent dies.
TEST(TargetProcessTest, DeathSignal_IsTheTargets) {
  const std::string show = "$got = pack('i', 0); syscall(" + std::to_string(SYS_prctl) + ", " +
                           std::to_string(PR_GET_PDEATHSIG) + ", $got); print unpack('i', $got)";
  for (const int signo : {0, SIGUSR1}) {
    const auto run = [&](auto&& start) {
      return InChild([&] {
        prctl(PR_SET_PDEATHSIG, signo);
        start({"perl", "-e", show});
      });
    };
    const auto shown = run([](const Words& words) { RunLikeTbprof(words); });
    EXPECT_EQ(shown.first, std::to_string(signo));
    EXPECT_EQ(shown, run([](const Words& words) { ExecBare(words); }));
  }
}

// systemd names the process that sockets and the watchdog are for; another process ignores them.
TEST(TargetProcessTest, VariablesForTheLaunchersPid_AreForTheTarget) {
  const auto show = [](const char* pid) {
    return InChild([pid] {
      const std::string own = std::to_string(getpid());
      for (const char* name : {"LISTEN_PID", "WATCHDOG_PID", "OTHER_PID"}) {
        setenv(name, pid != nullptr ? pid : own.c_str(), 1);
      }
      RunLikeTbprof({"/bin/sh", "-c", "echo $((LISTEN_PID == $$)) $((WATCHDOG_PID == $$)) $((OTHER_PID == $$))"});
    });
  };
  EXPECT_EQ(show(nullptr).first, "1 1 0\n");
  EXPECT_EQ(show("1").first, "0 0 0\n");
}

TEST(TargetProcessTest, EachExitStatus_IsPassedOn) {
  for (int code = 0; code < 256; ++code) {
    const int status = InChild([code] {
                         TargetEnd end;
                         end.code = code;
                         ExitWithStatusOf(end);
                       }).second;
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
  EXPECT_EQ(WEXITSTATUS(InChild([] { RunLikeTbprof({"sh", "-c", "exit 77"}); }).second), 77);
}

TEST(TargetProcessTest, EachSignal_IsPassedOn) {
  for (int signo : {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGPIPE, SIGALRM,
                    SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGRTMIN + 1}) {
    const int status = InChild([signo] {
                         RunLikeTbprof({"sh", "-c", "kill -" + std::to_string(signo) + " $$"});
                       }).second;
    EXPECT_TRUE(WIFSIGNALED(status)) << signo;
    EXPECT_EQ(WTERMSIG(status), signo);
    EXPECT_FALSE(WCOREDUMP(status)) << signo;
  }
}

TEST(TargetProcessTest, ExecErrors_EqualTheBareOnes) {
  char name[] = "/tmp/tbprof-target-XXXXXX";
  const std::string directory = mkdtemp(name);
  std::ofstream(directory + "/plain") << "echo from sh $1\n";
  auto spawn = [](const std::string& command, int* error) {
    return TargetProcess::Spawn({{command, "x"}, CurrentEnvironment(), OriginalSignals::Capture()}, error);
  };
  int error = -1;
  EXPECT_FALSE(spawn("tbprof-no-such-program", &error).ok());
  EXPECT_EQ(error, ENOENT);
  EXPECT_EQ(ExecFailureStatus(error), 127);
  EXPECT_FALSE(spawn(directory + "/plain", &error).ok());
  EXPECT_EQ(error, EACCES);
  EXPECT_EQ(ExecFailureStatus(error), 126);
  EXPECT_FALSE(spawn(directory, &error).ok());
  EXPECT_EQ(ExecFailureStatus(error), 126);
  EXPECT_FALSE(spawn(directory + "/plain/x", &error).ok());
  EXPECT_EQ(ExecFailureStatus(error), 127);
  EXPECT_FALSE(TargetProcess::Spawn({}, &error).ok());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // nothing left behind

  chmod((directory + "/plain").c_str(), 0755);
  ExpectSameAsBare({directory + "/plain", "word"});  // ENOEXEC: the shell, as with execvp
  std::filesystem::remove_all(directory);
}

TEST(TargetProcessTest, Spawn_OtherThreadsAllocate_Works) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(InChild([] { RunLikeTbprof({"echo", "hello"}, true); }), std::make_pair(std::string("hello\n"), 0));
  }
}

TEST(TargetProcessTest, PollPidfdAndUsage_ReportTheEnd) {
  int error;
  absl::StatusOr<TargetProcess> target =
      TargetProcess::Spawn({{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 5"},
                            CurrentEnvironment(),
                            OriginalSignals::Capture()},
                           &error);
  ASSERT_TRUE(target.ok()) << target.status();
  ASSERT_GE(target->pidfd(), 0);
  EXPECT_NE(fcntl(target->pidfd(), F_GETFD) & FD_CLOEXEC, 0);
  pollfd ready = {target->pidfd(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 60000), 1);
  const std::optional<TargetEnd> end = target->Poll();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, 5);
  EXPECT_FALSE(end->signaled);
  EXPECT_GT(end->user_cpu + end->system_cpu, absl::Milliseconds(5));
  EXPECT_EQ(target->Poll()->code, 5);  // again, although it is reaped
  EXPECT_EQ(target->Wait().code, 5);
  EXPECT_FALSE(target->Signal(SIGTERM).ok());
}

TEST(TargetProcessTest, Stops_AreReported) {
  int error;
  absl::StatusOr<TargetProcess> target = TargetProcess::Spawn(
      {{"sh", "-c", "kill -STOP $$; exit 3"}, CurrentEnvironment(), OriginalSignals::Capture()}, &error);
  ASSERT_TRUE(target.ok());
  std::optional<int> stopped;
  for (int i = 0; i < 6000 && !stopped; ++i) {
    stopped = target->PollStopped();
    if (!stopped) usleep(10000);
  }
  ASSERT_EQ(stopped, SIGSTOP);
  EXPECT_TRUE(target->stopped());
  EXPECT_FALSE(target->PollStopped().has_value());  // reported once
  EXPECT_FALSE(target->Poll().has_value());
  EXPECT_TRUE(target->Signal(SIGCONT).ok());
  EXPECT_EQ(target->Wait().code, 3);
  EXPECT_FALSE(target->stopped());
}

TEST(TargetProcessTest, Alarm_ReachesTheTarget) {
  const auto begin = absl::Now();
  const int status = InChild([] {
                       const itimerval soon = {{0, 0}, {0, 300000}};
                       setitimer(ITIMER_REAL, &soon, nullptr);
                       RunLikeTbprof({"sleep", "60"});
                     }).second;
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGALRM);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

TEST(TargetProcessTest, IgnoredChildSignal_StatusIsKept) {
  EXPECT_EQ(InChild([] {
              signal(SIGCHLD, SIG_IGN);
              RunLikeTbprof({"sh", "-c", "exit 9"});
            }).second,
            9 << 8);
}

TEST(TargetProcessTest, QueuedValue_IsKept) {
  const auto [text, status] = InChild([] {
    absl::StatusOr<SignalSet> signals = SignalSet::Install();
    int error;
    // Bash does not show the value of a signal; the test can only check that the signal arrives.
    absl::StatusOr<TargetProcess> target =
        TargetProcess::Spawn({{"sleep", "60"}, CurrentEnvironment(), signals->original()}, &error);
    if (!target->Signal(SIGRTMIN + 2, 42).ok()) _exit(1);
    ExitWithStatusOf(target->Wait());
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGRTMIN + 2);
}

TEST(TargetEnvironmentTest, OwnVariables_AreFirstAndOthersUnchanged) {
  const Environment before = {"A=1", "LD_PRELOAD=/x.so:/y.so", "B=\xff\n", "EMPTY=", "no-equals", "A=2"};
  EXPECT_EQ(TargetEnvironment(before, "/t.so", {"TBPROF_SESSION=1;x"}),
            Environment({"A=1", "LD_PRELOAD=/t.so:/x.so:/y.so", "B=\xff\n", "EMPTY=", "no-equals", "A=2",
                         "TBPROF_SESSION=1;x"}));
  EXPECT_EQ(TargetEnvironment(before, "", {}), before);
  EXPECT_EQ(TargetEnvironment({}, "/t.so", {}), Environment({"LD_PRELOAD=/t.so"}));
  EXPECT_EQ(TargetEnvironment({"LD_PRELOAD="}, "/t.so", {}), Environment({"LD_PRELOAD=/t.so"}));
  EXPECT_EQ(TargetEnvironment({"LD_PRELOAD=/a", "LD_PRELOAD=/b", "LD_PRELOADX=/c"}, "/t.so", {}),
            Environment({"LD_PRELOAD=/a", "LD_PRELOAD=/t.so:/b", "LD_PRELOADX=/c"}));
  EXPECT_EQ(TargetEnvironment({"TBPROF_SESSION=old"}, "", {"TBPROF_SESSION=new"}), Environment({"TBPROF_SESSION=new"}));
}

}  // namespace
}  // namespace tbprof
