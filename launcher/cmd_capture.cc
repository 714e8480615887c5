// SPDX-License-Identifier: Apache-2.0
//
// `tbprof capture`: a window in running jobs, by their ports or by the sessions' own sockets.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "launcher/commands.h"
#include "launcher/control_socket.h"
#include "launcher/profiler_client.h"
#include "launcher/terminal.h"
#include "launcher/text.h"
#include "writer/file_ops.h"
#include "writer/logdir.h"
#include "writer/utf8.h"
#include "writer/xspace_skim.h"

namespace tbprof {
namespace {

constexpr int kExitSome = 1, kExitNone = 2;
// Until all workers are called, so that they begin at the same moment.
constexpr absl::Duration kLead = absl::Milliseconds(500);
constexpr absl::Duration kLocalPatience = absl::Seconds(120);  // beyond the window, since the last word

// What the operands name.
struct Targets {
  std::vector<std::string> addresses;
  std::vector<FoundSession> sessions;
  bool empty() const { return addresses.empty() && sessions.empty(); }
};

std::string SessionList(const std::vector<FoundSession>& sessions) {
  std::vector<std::string> names;
  names.reserve(sessions.size());
  for (const FoundSession& session : sessions) {
    names.push_back(StrCat(session.status.pid, " (run ", PrintableUtf8(session.status.run), ")"));
  }
  return absl::StrJoin(names, ", ");
}

// The ports that the launchers of a run have told the log directory they share.
std::vector<std::string> EndpointsOf(const std::string& logdir, const std::string& run, const std::set<int>& local) {
  std::vector<std::string> addresses;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(StrCat(logdir, "/.tbprof/endpoints/", run), none)) {
    if (!entry.path().string().ends_with(".endpoints.json")) continue;
    std::ifstream file(entry.path());
    const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("addresses") || !json["addresses"].is_array()) continue;
    const std::string host = json.contains("host") && json["host"].is_string() ? json["host"].get<std::string>() : "";
    const bool here = host == HostName();
    // Its launcher was killed; whoever has the port now is not of this run.
    const bool has_pid = json.contains("pid") && json["pid"].is_number_integer();
    if (here && has_pid && kill(json["pid"].get<int>(), 0) != 0 && errno == ESRCH) continue;
    if (here && json.contains("pid") && json["pid"].is_number_integer() && local.count(json["pid"].get<int>()) != 0) {
      continue;
    }
    for (const auto& address : json["addresses"]) {
      if (!address.is_string()) continue;
      std::string text = address.get<std::string>();
      const bool loopback = text.starts_with("127.") || text.starts_with("[::1]");
      if (loopback && !here) continue;
      // All addresses of the machine: by its name.
      if (text.starts_with("0.0.0.0:") || text.starts_with("[::]:")) text = StrCat(host, text.substr(text.rfind(':')));
      if (!CheckAddress(text).ok()) continue;
      addresses.push_back(text);
      break;
    }
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

absl::StatusOr<Targets> FindTargets(const Options& options, const std::string& logdir) {
  Targets targets;
  std::vector<std::string> words;
  for (const std::string& operand : options.operands) {
    for (const std::string_view word : Split(operand, ',')) {
      if (!Strip(word).empty()) words.emplace_back(Strip(word));
    }
  }
  const bool by_address = std::all_of(words.begin(), words.end(),
                                      [](const std::string& word) { return word.find(':') != std::string::npos; });
  if (by_address && !words.empty()) {
    for (std::string& word : words) {
      if (word.starts_with("grpc://")) word.erase(0, strlen("grpc://"));
      if (const absl::Status status = CheckAddress(word); !status.ok()) return status;
      if (std::find(targets.addresses.begin(), targets.addresses.end(), word) == targets.addresses.end()) {
        targets.addresses.push_back(word);
      }
    }
    return targets;
  }
  const std::vector<FoundSession> sessions = FindSessions();
  if (words.empty()) {
    if (sessions.size() == 1) {
      targets.sessions = sessions;
      return targets;
    }
    return InvalidArgument(sessions.empty()
                               ? "no `tbprof run` of this user is running on this machine; for another one name its "
                                 "port: tbprof capture HOST:PORT"
                               : StrCat("which one? tbprof capture PID, with one of ", SessionList(sessions)));
  }
  for (const std::string& word : words) {
    int number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool is_number = error == std::errc() && end == word.data() + word.size();
    bool found = false;
    std::set<int> local;
    for (const FoundSession& session : sessions) {
      const SessionStatus& status = session.status;
      const bool its_pid = is_number && (status.pid == number || std::find(status.pids.begin(), status.pids.end(),
                                                                           number) != status.pids.end());
      if (!its_pid && status.run != word) continue;
      found = true;
      local.insert(status.pid);
      const bool known = std::any_of(targets.sessions.begin(), targets.sessions.end(),
                                     [&](const FoundSession& other) { return other.socket == session.socket; });
      if (!known) targets.sessions.push_back(session);
    }
    for (std::string& address : EndpointsOf(logdir, word, local)) {
      found = true;
      targets.addresses.push_back(std::move(address));
    }
    if (found) continue;
    return InvalidArgument(
        StrCat("`", PrintableUtf8(word), "` is no HOST:PORT, and no `tbprof run` of this user on this machine ",
               is_number ? "has that process" : "has that run",
               sessions.empty() ? "; none is running here" : StrCat("; there is ", SessionList(sessions))));
  }
  return targets;
}

class CaptureCommand {
 public:
  CaptureCommand(const Options& options, Terminal* terminal) : options_(options), terminal_(*terminal) {}

  int Main() {
    absl::StatusOr<std::string> logdir = NormaliseLogdir(options_.logdir, WorkingDirectory());
    if (!logdir.ok()) return Usage(logdir.status());
    logdir_ = *logdir;
    absl::StatusOr<Targets> targets = FindTargets(options_, logdir_);
    if (!targets.ok()) return Usage(targets.status());
    targets_ = *std::move(targets);
    // Sessions of this machine have a log directory of their own; files come here when there are other workers or when
    // the user wants them here.
    here_ = !targets_.addresses.empty() || options_.logdir_named;
    run_ = !options_.run.empty() ? options_.run : RunNameFor(time(nullptr));
    if (here_) {
      absl::Status status = PrepareLogdir(logdir_, HostName());
      if (status.ok()) status = MakeDirectory();
      if (!status.ok()) return Usage(status);
    }
    terminal_.Say(StrCat("capturing ", absl::FormatDuration(options_.capture_duration), " of ",
                         Count(targets_.addresses.size() + targets_.sessions.size(), "worker"),
                         here_ ? StrCat(" to ", PrintableUtf8(logdir_), ", run ", PrintableUtf8(run_)) : ""));
    const bool several = targets_.addresses.size() + targets_.sessions.size() > 1;
    start_ = absl::Now() + std::max(options_.capture_delay, several ? kLead : absl::ZeroDuration());
    {
      Progress progress(&terminal_, "capturing");
      progress_ = &progress;
      CaptureLocally();
      CaptureRemotely();
      while (!locals_.empty()) WaitForLocals();
      if (remote_thread_.joinable()) remote_thread_.join();
      progress_ = nullptr;
    }
    return Finish();
  }

 private:
  static std::string Count(size_t count, std::string_view what) {
    return StrCat(count, " ", what, count == 1 ? "" : "s");
  }

  int Usage(const absl::Status& status) {
    terminal_.Error(std::string(status.message()));
    return kExitUsage;
  }

  absl::Status MakeDirectory() {
    // A run that is named may have the files of others in it.
    auto directory = RunDirectory::Create(logdir_, run_, options_.run.empty(), HostName(), -1);
    if (!directory.ok()) return directory.status();
    directory_ = *std::move(directory);
    run_ = directory_->run();
    return absl::OkStatus();
  }

  // ---- workers at ports

  void CaptureRemotely() {
    if (targets_.addresses.empty()) return;
    for (const std::string& address : targets_.addresses) {
      workers_.emplace_back();
      workers_.back().address = address;
    }
    remote_thread_ = std::thread([this] {
      RemoteCapture request;
      request.duration = options_.capture_duration;
      request.start = start_;
      request.attempts = options_.retries + 1;
      request.session_id = run_;
      // Ours is no path of theirs: the files are written here.
      request.repository_root = "";
      CaptureFromWorkers(
          request, &workers_,
          [this](const RemoteWorker& worker, const std::string& name, const PieceReader& pieces) {
            const std::lock_guard<std::mutex> lock(mutex_);
            return directory_
                ->WriteBytes(StrCat(StemOfAddress(worker.address), ".", name),
                             [&](Sink& sink) {
                               absl::Status status;
                               for (std::string_view piece; status.ok() && pieces(&piece);) status = sink.Append(piece);
                               return status;
                             })
                .status();
          },
          [this](const RemoteWorker& worker) { SayWorker(worker); });
    });
  }

  void SayWorker(const RemoteWorker& worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string name = PrintableUtf8(worker.address);
    switch (worker.state) {
      case RemoteWorker::State::kRetrying:
        terminal_.Say(StrCat(name, ": ", std::string(worker.status.message()), "; trying again (", worker.attempts,
                             " of ", options_.retries + 1, ")"));
        return;
      case RemoteWorker::State::kDone:
        ++succeeded_;
        if (worker.wrote_itself) {
          terminal_.Say(
              StrCat(name, ": done, and it sent no file: it has written into a directory of its own machine"));
        } else {
          terminal_.Say(StrCat(name, ": ", Size(worker.bytes), " after ", Took(worker.took)));
        }
        break;
      case RemoteWorker::State::kFailed:
        ++failed_;
        terminal_.Error(StrCat(name, ": ", Reason(worker.status)));
        break;
      case RemoteWorker::State::kCalling:
        return;
    }
  }

  static std::string Reason(const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kUnavailable:
        return StrCat("nobody answers there: ", std::string(status.message()));
      case absl::StatusCode::kDeadlineExceeded:
        return StrCat("no answer in time: ", std::string(status.message()));
      case absl::StatusCode::kUnimplemented:
        return StrCat("no profiler service of TensorFlow's kind: ", std::string(status.message()));
      default:
        return std::string(status.message());
    }
  }

  static std::string Size(uint64_t bytes) {
    return bytes < 1 << 20 ? absl::StrFormat("%.1f KiB", static_cast<double>(bytes) / 1024)
                           : absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  static std::string Took(absl::Duration duration) {
    return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
  }

  // ---- sessions of this machine

  struct Local {
    std::string name;
    std::string stem;
    std::unique_ptr<ControlConnection> connection;
    absl::Time until;
    absl::Time asked;
    int attempts = 0;
    std::string socket;
    absl::Time again = absl::InfiniteFuture();  // when it is asked once more
  };

  void CaptureLocally() {
    for (const FoundSession& session : targets_.sessions) {
      Local local;
      local.name = StrCat("process ", session.status.pid);
      local.stem =
          targets_.sessions.size() == 1 ? session.status.host : StrCat(session.status.host, "_", session.status.pid);
      local.socket = session.socket;
      AskLocal(&local);
      locals_.push_back(std::move(local));
    }
  }

  void AskLocal(Local* local) {
    ++local->attempts;
    local->again = absl::InfiniteFuture();
    local->asked = absl::Now();
    local->until = absl::Now() + options_.capture_delay + options_.capture_duration + kLocalPatience;
    absl::StatusOr<ControlConnection> connection = ControlConnection::Connect(local->socket);
    absl::Status status = connection.status();
    if (status.ok()) {
      ControlAsk ask{AskKind::kCapture, 1, {}};
      ask.capture.duration_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.capture_duration));
      ask.capture.start_unix_ns = static_cast<uint64_t>(absl::ToUnixNanos(start_));
      ask.capture.asked_by = StrCat("tbprof capture ", getpid());
      ask.capture.publish = !here_;
      ask.capture.run = here_ || !options_.run.empty() ? run_ : "";
      ask.capture.host = here_ ? local->stem : "";
      status = connection->Send(ToText(ask));
      local->connection = std::make_unique<ControlConnection>(*std::move(connection));
    }
    if (!status.ok()) FailLocal(local, status);
  }

  void FailLocal(Local* local, const absl::Status& status) {
    local->connection.reset();
    const bool may_work =
        status.code() == absl::StatusCode::kAlreadyExists || status.code() == absl::StatusCode::kUnavailable;
    if (may_work && local->attempts <= options_.retries) {
      terminal_.Say(StrCat(local->name, ": ", std::string(status.message()), "; trying again (", local->attempts,
                           " of ", options_.retries + 1, ")"));
      local->again = absl::Now() + absl::Seconds(1 << std::min(local->attempts - 1, 4));
      return;
    }
    ++failed_;
    terminal_.Error(StrCat(local->name, ": ", std::string(status.message())));
  }

  void WaitForLocals() {
    std::vector<pollfd> fds;
    for (const Local& local : locals_) fds.push_back({local.connection ? local.connection->fd() : -1, POLLIN, 0});
    poll(fds.data(), fds.size(), 200);
    for (size_t i = 0; i < locals_.size(); ++i) {
      Local& local = locals_[i];
      if (local.connection == nullptr) {
        if (absl::Now() >= local.again) AskLocal(&local);
        continue;
      }
      if (fds[i].revents == 0) {
        if (absl::Now() > local.until) FailLocal(&local, absl::DeadlineExceededError("no answer in time"));
        continue;
      }
      absl::StatusOr<ControlConnection::Received> received = local.connection->Receive(absl::ZeroDuration());
      if (!received.ok()) {
        if (!absl::IsDeadlineExceeded(received.status())) FailLocal(&local, received.status());
        continue;
      }
      absl::StatusOr<ControlAnswer> answer = ParseAnswer(received->text);
      if (!answer.ok()) {
        FailLocal(&local, answer.status());
        continue;
      }
      switch (answer->state) {
        case AnswerState::kOpen:
          local.until = absl::FromUnixNanos(static_cast<int64_t>(answer->closes_unix_ns)) + kLocalPatience;
          break;
        case AnswerState::kWriting:
          local.until = absl::Now() + kLocalPatience;
          if (progress_ != nullptr) progress_->Update(answer->done, answer->total);
          break;
        case AnswerState::kFailed:
          FailLocal(&local, answer->status);
          break;
        case AnswerState::kDone:
          TakeLocal(&local, *answer, received->descriptors);
          break;
      }
    }
    std::erase_if(locals_, [](const Local& local) {
      return local.connection == nullptr && local.again == absl::InfiniteFuture();
    });
  }

  void TakeLocal(Local* local, const ControlAnswer& answer, const std::vector<ScopedFd>& descriptors) {
    absl::Status status;
    uint64_t bytes = 0;
    for (size_t i = 0; here_ && status.ok() && i < descriptors.size() && i < answer.files.size(); ++i) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const absl::StatusOr<uint64_t> written = directory_->WriteBytes(
          StrCat(local->stem, ".", answer.files[i]), [&](Sink& sink) { return Copy(descriptors[i].get(), sink); });
      status = written.status();
      if (written.ok()) bytes += *written;
    }
    if (here_ && status.ok() && descriptors.empty()) status = absl::DataLossError("it sent no profile");
    (void)local->connection->Send(ToText(ControlAsk{status.ok() ? AskKind::kReceived : AskKind::kCancel, 1, {}}));
    if (!status.ok()) return FailLocal(local, status);
    ++succeeded_;
    if (here_) {
      terminal_.Say(StrCat(local->name, ": ", Size(bytes), " after ", Took(absl::Now() - local->asked)));
    } else {
      for (const std::string& line : answer.lines) terminal_.Say(line);
    }
    local->connection.reset();
  }

  static absl::Status Copy(int fd, Sink& sink) {
    char buffer[1 << 16];
    for (off_t at = 0;;) {
      const ssize_t got = pread(fd, buffer, sizeof(buffer), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return absl::ErrnoToStatus(errno, "cannot read the profile");
      if (got == 0) return absl::OkStatus();
      at += got;
      if (absl::Status status = sink.Append(std::string_view(buffer, static_cast<size_t>(got))); !status.ok()) {
        return status;
      }
    }
  }

  // ---- the end

  int Finish() {
    if (here_ && !directory_->written().empty()) {
      absl::StatusOr<std::vector<RunDirectory::File>> files = directory_->Publish();
      if (!files.ok()) {
        terminal_.Error(std::string(files.status().message()));
        return kExitNone;
      }
      for (const RunDirectory::File& file : *files) SayFile(file);
      terminal_.Say(StrCat("view: tensorboard --logdir ", PrintableUtf8(logdir_)));
      terminal_.Say(StrCat("      then http://localhost:6006/#profile, run ", PrintableUtf8(directory_->run())));
    }
    if (failed_ > 0) {
      terminal_.Error(StrCat(Count(succeeded_, "worker"), " answered, ", failed_.load(), " did not"));
    }
    return succeeded_ == 0 ? kExitNone : failed_ > 0 ? kExitSome : 0;
  }

  void SayFile(const RunDirectory::File& file) {
    std::string text = StrCat(PrintableUtf8(file.path), "  ", Size(file.bytes));
    const ScopedFd fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid() && file.path.ends_with(".xplane.pb")) {
      const XspaceFacts facts = SkimXspace(fd.get(), file.bytes);
      if (facts.parsed) {
        StrAppend(&text, ", ", Count(facts.planes, "plane"), ", ", Count(facts.lines, "line"),
                  facts.has_events ? "" : ", no event");
      } else {
        terminal_.Warn(StrCat(PrintableUtf8(file.path), " is no profile: ", facts.cause));
      }
    }
    terminal_.Say(text);
  }

  const Options& options_;
  Terminal& terminal_;
  std::string logdir_, run_;
  Targets targets_;
  bool here_ = false;
  absl::Time start_;
  std::unique_ptr<RunDirectory> directory_;
  std::vector<RemoteWorker> workers_;
  std::vector<Local> locals_;
  std::thread remote_thread_;
  std::mutex mutex_;
  Progress* progress_ = nullptr;
  std::atomic<size_t> succeeded_ = 0, failed_ = 0;
};

}  // namespace

int CommandCapture(const Options& options) {
  Terminal terminal(options);
  if (!terminal.status().ok()) {
    Terminal().Error(std::string(terminal.status().message()));
    return kExitUsage;
  }
  signal(SIGPIPE, SIG_IGN);
  return CaptureCommand(options, &terminal).Main();
}

}  // namespace tbprof
