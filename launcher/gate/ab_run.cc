// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/ab_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/str_split.h"
#include "launcher/base/text.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"

extern char** environ;

namespace tbprof {
namespace {

constexpr size_t kTailBytes = 4096, kTailColumns = 200;

volatile sig_atomic_t g_interrupted = 0;
volatile sig_atomic_t g_child = 0;

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// The run is a process group of its own: a shell that gets the signal alone would leave its children behind.
void SendToRun(int signo) {
  if (g_child <= 0) return;
  kill(-static_cast<pid_t>(g_child), signo);
  kill(-static_cast<pid_t>(g_child), SIGCONT);
}

void Interrupt(int signo) {
  const int error = errno;
  g_interrupted = 1;
  SendToRun(signo);
  errno = error;
}

void StopAlike(int signo) {
  const int error = errno;
  if (g_child > 0) kill(-static_cast<pid_t>(g_child), signo);
  raise(SIGSTOP);
  if (g_child > 0) kill(-static_cast<pid_t>(g_child), SIGCONT);
  errno = error;
}

// Handles the signals that end a run, and SIGTSTP, while one runs.
class InterruptHandler {
 public:
  InterruptHandler() {
    struct sigaction action = {};
    action.sa_handler = Interrupt;
    for (size_t i = 0; i < std::size(kEnding); ++i) {
      sigaction(kEnding[i], nullptr, &before_[i]);
      // `nohup tbprof ab`
      if (before_[i].sa_handler != SIG_IGN) sigaction(kEnding[i], &action, nullptr);
    }
    action.sa_handler = StopAlike;
    sigaction(SIGTSTP, nullptr, &stop_);
    if (stop_.sa_handler != SIG_IGN) sigaction(SIGTSTP, &action, nullptr);
  }
  ~InterruptHandler() {
    for (size_t i = 0; i < std::size(kEnding); ++i) sigaction(kEnding[i], &before_[i], nullptr);
    sigaction(SIGTSTP, &stop_, nullptr);
  }
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;

 private:
  struct sigaction before_[std::size(kEnding)] = {}, stop_ = {};
};

// Keeps these signals pending while it exists.
class BlockedInterrupts {
 public:
  BlockedInterrupts() {
    sigset_t interrupts;
    sigemptyset(&interrupts);
    for (const int signo : kEnding) sigaddset(&interrupts, signo);
    pthread_sigmask(SIG_BLOCK, &interrupts, &before_);
  }
  ~BlockedInterrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedInterrupts(const BlockedInterrupts&) = delete;
  BlockedInterrupts& operator=(const BlockedInterrupts&) = delete;

  const sigset_t& before() const { return before_; }
  bool has_pending() const {
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           std::ranges::any_of(kEnding, [&](int signo) { return sigismember(&pending, signo) == 1; });
  }

 private:
  sigset_t before_;
};

// The last non-empty line that the command wrote. tbprof's own lines follow it in the file and are skipped.
std::string LastLine(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return "";
  const off_t size = lseek(file.get(), 0, SEEK_END);
  char text[kTailBytes];
  const off_t from = size > static_cast<off_t>(sizeof(text)) ? size - static_cast<off_t>(sizeof(text)) : 0;
  const ssize_t got = pread(file.get(), text, sizeof(text), from);
  const std::string tail(text, got > 0 ? static_cast<size_t>(got) : 0);
  std::string last;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(tail, '\n', absl::SkipWhitespace()))) {
    if (!line.starts_with("tbprof: ")) last = line;
  }
  if (last.size() > kTailColumns) last.resize(kTailColumns);
  return PrintableUtf8(last);
}

std::string WhyFailed(int status, const AbRunRequest& request) {
  std::string why = WIFSIGNALED(status) ? StrCat("was ended by signal ", WTERMSIG(status))
                                        : StrCat("ended with status ", WEXITSTATUS(status));
  const std::string line = LastLine(request.output);
  return StrCat(why, line.empty() ? "" : StrCat(": ", line));
}

// `mask`: blocked signals of the new process.
int Spawn(const AbRunRequest& request, const sigset_t& mask, pid_t* pid) {
  const std::vector<std::string> words = {
      "tbprof", "run",          StrCat("--logdir=", request.logdir), StrCat("--run=", request.run), "--", "/bin/sh",
      "-c",     request.command};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, request.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) *pid = 0;
  return error;
}

}  // namespace

AbRunResult RunSide(const AbRunRequest& request, GpuLoadReader* gpus) {
  AbRunResult result;
  const InterruptHandler handler;
  const LoadReading before = ReadLoad(gpus);
  pid_t pid = 0;
  int error = 0;
  {
    // An interrupt that came before the run exists has not reached it.
    const BlockedInterrupts blocked;
    if (g_interrupted == 0 && !blocked.has_pending()) error = Spawn(request, blocked.before(), &pid);
    g_child = pid;
  }
  if (error != 0 || pid == 0) {
    result.interrupted = g_interrupted != 0;
    if (error != 0) result.error = StrCat("cannot start tbprof: ", strerror(error));
    return result;
  }
  int status = 0;
  bool wants_terminal = false;
  for (;;) {
    if (waitpid(pid, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (!WIFSTOPPED(status)) break;
    // A process group in the background may not use the terminal: nobody could continue it.
    wants_terminal = WSTOPSIG(status) == SIGTTIN || WSTOPSIG(status) == SIGTTOU;
    if (wants_terminal) SendToRun(SIGTERM);
  }
  g_child = 0;
  result.load = LoadBetween(before, ReadLoad(gpus));
  result.interrupted = g_interrupted != 0;
  if (status != 0) result.error = WhyFailed(status, request);
  if (wants_terminal) result.error = "uses the terminal, which `tbprof ab` gives to no run";
  return result;
}

}  // namespace tbprof
