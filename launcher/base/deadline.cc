// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/deadline.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include "absl/time/clock.h"
#include "launcher/base/proc_stat.h"
#include "writer/base/scoped.h"

namespace tbprof {

void KillAndLeave(pid_t pid) {
  kill(pid, SIGKILL);
  for (int i = 0; i < 20; ++i) {
    const pid_t got = waitpid(pid, nullptr, WNOHANG);
    if (got == pid || (got < 0 && errno != EINTR)) return;
    absl::SleepFor(absl::Milliseconds(10));
  }
}

absl::Duration Patience::Look(pid_t pid) {
  if (pid > 0 && SchedulerState(pid) == 'R') Restart();
  const absl::Time now = absl::Now();
  if (last_ != absl::InfiniteFuture()) {
    passed_ += std::clamp(now - last_, absl::ZeroDuration(), absl::Milliseconds(250));
  }
  last_ = now;
  return passed_;
}

void Patience::Restart() {
  passed_ = absl::ZeroDuration();
  last_ = absl::InfiniteFuture();
}

absl::Status WithinDeadline(absl::Duration limit, const std::function<absl::Status()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return work();
  ScopedFd reader(ends[0]);
  ScopedFd writer(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return work();
  if (pid == 0) {
    reader.Reset();
    const absl::Status status = work();
    // The code, then the message; at most as much as a pipe takes at once.
    const std::string text = std::string(status.message().substr(0, 4000));
    const std::string answer = static_cast<char>(status.code()) + text;
    (void)!write(writer.get(), answer.data(), answer.size());
    _exit(0);
  }
  writer.Reset();
  Patience patience;
  std::string answer;
  for (;;) {
    const int64_t left = absl::ToInt64Milliseconds(limit - patience.Look(pid));
    pollfd entry{reader.get(), POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 100)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && left > 0) continue;
    if (ready <= 0) {
      KillAndLeave(pid);
      return absl::DeadlineExceededError("no answer");
    }
    char buffer[4096];
    const ssize_t got = read(reader.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.append(buffer, static_cast<size_t>(got));
  }
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (answer.empty()) return absl::InternalError("the process that checks the directory ended without a result");
  return absl::Status(static_cast<absl::StatusCode>(answer[0]), absl::string_view(answer).substr(1));
}

}  // namespace tbprof
