// SPDX-License-Identifier: Apache-2.0
#include "launcher/convert/conversion.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "launcher/convert/conversion_messages.h"
#include "launcher/target/worker_process.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr int kLowestPriority = 19;
// With this priority the worker gets a quarter of a CPU that the command keeps busy. The worker needs the same CPU time
// at any priority, but finishes sooner than with the lowest one.
constexpr int kPriorityOnRequest = 5;

}  // namespace

void SetLogdir(const LogDirectory& logdir, ConversionRequest* request) {
  request->logdir = logdir.path;
  request->logdir_place = logdir.place;
  request->logdir_fd = logdir.fd.get();
}

absl::StatusOr<std::unique_ptr<Conversion>> Conversion::Start(const ConversionRequest& request) {
  std::unique_ptr<Conversion> conversion(new Conversion());
  conversion->request_ = request;
  ScopedFd input(memfd_create("tbprof-request", MFD_CLOEXEC));
  int ends[2];
  if (!input.valid() || pipe2(ends, O_CLOEXEC) != 0) {
    return NoDescriptor("cannot start the conversion");
  }
  conversion->pipe_.Reset(ends[0]);
  ScopedFd output(ends[1]);
  fcntl(conversion->pipe_.get(), F_SETFL, O_NONBLOCK);
  const std::string text = ToJson(request).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const ssize_t written = write(input.get(), text.data(), text.size());
  const bool is_short = written >= 0 && written != static_cast<ssize_t>(text.size());
  if (written < 0 || is_short || lseek(input.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(is_short ? ENOSPC : errno, "cannot start the conversion");
  }
  // The worker blocks signals that the terminal sends to the process group: the launcher decides about them.
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signo : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2}) sigaddset(&mask, signo);
  std::vector<WorkerDescriptor> descriptors = {{input.get(), kConvertRequestFd}, {output.get(), kConvertResultFd}};
  if (request.logdir_fd >= 0) descriptors.push_back({request.logdir_fd, kConvertLogdirFd});
  if (request.spool_directory >= 0) descriptors.push_back({request.spool_directory, kConvertSpoolDirectoryFd});
  const absl::StatusOr<pid_t> pid =
      StartWorker({kConvertWorkerArgument}, descriptors, mask, "cannot start the conversion");
  if (!pid.ok()) return pid.status();
  conversion->pid_ = *pid;
  // The launcher sets the priority: the worker could do so too late and undo RaisePriority.
  if (request.beside_command) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(conversion->pid_),
                request.on_request ? kPriorityOnRequest : kLowestPriority);
  }
  return conversion;
}

Conversion::~Conversion() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Conversion::TakeLine(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  silence_.Restart();
  if (json.contains("publishing")) publishing_ = json["publishing"].is_boolean() && json["publishing"].get<bool>();
  if (json.contains("progress")) {
    publishing_ = false;
    done_ = json["progress"][0];
    total_ = json["progress"][1];
  } else if (json.contains("error")) {
    result_.status = absl::InternalError(json["error"].get<std::string>());
    has_result_ = true;
  } else if (json.contains("summary_json")) {
    ReadResult(json, &result_);
    has_result_ = true;
  }
}

absl::Duration Conversion::Stalled() {
  if (publishing_ && !finished_) return silence_.Look(pid_);
  silence_.Restart();
  return absl::ZeroDuration();
}

void Conversion::RaisePriority() {
  if (pid_ > 0) setpriority(PRIO_PROCESS, static_cast<id_t>(pid_), getpriority(PRIO_PROCESS, 0));
}

void Conversion::Abandon() {
  if (pid_ > 0) KillAndLeave(pid_);
  pid_ = -1;
}

bool Conversion::Read() {
  if (finished_) return true;
  char buffer[65536];
  for (;;) {
    const ssize_t got = read(pipe_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    buffer_.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = buffer_.find('\n')) != std::string::npos;) {
      TakeLine(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
    }
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  finished_ = true;
  if (!has_result_) {
    result_.status =
        absl::InternalError(WIFSIGNALED(status) ? StrCat("the conversion was ended by signal ", WTERMSIG(status), " (",
                                                         strsignal(WTERMSIG(status)), ")")
                                                : StrCat("the conversion ended with status ", WEXITSTATUS(status)));
  }
  return true;
}

}  // namespace tbprof
