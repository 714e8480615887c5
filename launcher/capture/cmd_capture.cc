// SPDX-License-Identifier: Apache-2.0
//
// `tbprof capture`: opens a window in running jobs, by their ports or by the sessions' control sockets.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/start_thread.h"
#include "launcher/base/text.h"
#include "launcher/capture/capture_targets.h"
#include "launcher/capture/fetched_summary.h"
#include "launcher/capture/interrupt_line.h"
#include "launcher/capture/profiler_client.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/service/profiler_request.h"
#include "launcher/service/tls.h"
#include "launcher/target/command_python.h"
#include "wire/clock.h"
#include "writer/base/arguments.h"
#include "writer/base/file_ops.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"
#include "writer/outputs/xspace_skim.h"
#include "writer/timeline/timeline.h"

namespace tbprof {
namespace {

constexpr int kExitSome = 1, kExitNone = 2;
constexpr size_t kLongestCommand = 120;
// The agreed start is this far ahead, so that all workers are called before it and begin at the same moment.
constexpr absl::Duration kLead = absl::Milliseconds(500);
constexpr absl::Duration kLate = absl::Milliseconds(100);
constexpr absl::Duration kLocalPatience = absl::Seconds(120);  // beyond the window, or since the last message

class CaptureCommand {
 public:
  CaptureCommand(const Options& options, Terminal* terminal) : options_(options), terminal_(*terminal) {}

  int Main() {
    absl::StatusOr<std::string> logdir = NormaliseLogdir(options_.logdir, WorkingDirectory());
    if (!logdir.ok()) return Usage(logdir.status());
    logdir_ = *logdir;
    if (!options_.tls_ca.empty()) {
      absl::StatusOr<std::unique_ptr<TlsContext>> tls = TlsContext::ForClient(options_.tls_ca);
      if (!tls.ok()) return Usage(tls.status());
      tls_ = *std::move(tls);
    }
    absl::StatusOr<CaptureTargets> targets = FindCaptureTargets(options_.operands, logdir_);
    if (!targets.ok()) return Usage(targets.status());
    targets_ = *std::move(targets);
    const bool remote = HasPorts();
    // Sessions of this machine write to their own log directory. This command writes the files itself if there are
    // remote workers or if the user has named --logdir.
    here_ = remote || options_.logdir_named;
    if (!options_.logdir_named && !targets_.logdir.empty()) logdir_ = targets_.logdir;
    run_ = !options_.run.empty() ? options_.run : RunNameFor(time(nullptr));
    if (!here_ && options_.run.empty()) run_ = FreeName(run_);
    if (here_) {
      // The base check applies to this command's own --logdir only, not to the log directory of a session.
      const std::string base = logdir_ == *logdir ? options_.logdir_base : "";
      absl::Status status = PrepareLogdir(logdir_, HostName(), base);
      if (status.ok()) status = MakeDirectory(base);
      if (!status.ok()) return Usage(status);
    }
    terminal_.Print(StrCat("capturing ", absl::FormatDuration(options_.capture_duration), " of ", WhatIsCaptured(),
                           here_ ? StrCat(" to ", PrintableUtf8(logdir_), ", run ", PrintableUtf8(run_)) : ""));
    const absl::Duration lead = std::max(options_.capture_delay, several() ? kLead : absl::ZeroDuration());
    start_ = absl::Now() + lead;
    start_ns_ = ReadMonotonic() + Ns(lead);
    {
      const InterruptLine line([this] { PrintInterrupted(); });
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
  int Usage(const absl::Status& status) {
    terminal_.Error(std::string(status.message()));
    return kExitUsage;
  }

  static uint64_t Ns(absl::Duration duration) { return static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration)); }

  // A job under tbprof ends an open window when its client is gone, and publishes the profile itself.
  void PrintInterrupted() {
    if (ReadMonotonic() < start_ns_) return terminal_.Print("interrupted before the window began: nothing is recorded");
    if (!HasPorts() && open_windows_ == 0) return terminal_.Print("interrupted: no window is open");
    terminal_.Print(StrCat(
        "interrupted: a job under tbprof ends an open window now, and writes the profile to ",
        here_ || several() ? "its own log directory" : StrCat(PrintableUtf8(logdir_), "; its terminal names the run")));
  }

  bool HasPorts() const {
    return std::ranges::any_of(targets_.all, [](const CaptureTarget& target) { return !target.address.empty(); });
  }
  bool several() const { return targets_.all.size() > 1; }

  // One worker may have been found without being named: its command shows whether it is the one that was meant.
  std::string WhatIsCaptured() const {
    if (targets_.all.size() != 1) return Counted(targets_.all.size(), "worker");
    const CaptureTarget& target = targets_.all.front();
    const std::string command = absl::StrJoin(target.session.status.command, " ");
    return StrCat(target.name, command.empty() ? "" : ": ", PrintableUtf8(TruncateUtf8(command, kLongestCommand)));
  }

  // An unused name for a run that several launchers write their files into.
  std::string FreeName(const std::string& wanted) const {
    std::error_code none;
    std::string name = wanted;
    for (int i = 2; std::filesystem::exists(StrCat(logdir_, "/plugins/profile/", name), none); ++i) {
      name = StrCat(wanted, "_", i);
    }
    return name;
  }

  absl::Status MakeDirectory(const std::string& base) {
    const absl::StatusOr<LogDirectory> held = LogDirectory::Open(logdir_, base);
    if (!held.ok()) return held.status();
    // A run that the user named may already have files of others.
    auto directory = RunDirectory::Create(held->fd.get(), logdir_, run_, options_.run.empty(), HostName(), -1);
    if (!directory.ok()) return directory.status();
    directory_ = *std::move(directory);
    run_ = directory_->run();
    return absl::OkStatus();
  }

  // ---- workers at ports

  void CaptureRemotely() {
    for (const CaptureTarget& target : targets_.all) {
      if (target.address.empty()) continue;
      workers_.emplace_back();
      workers_.back().address = target.address;
      workers_.back().stem = target.stem;
      workers_.back().name = target.name;
    }
    if (workers_.empty()) return;
    const absl::Status started = StartThread(&remote_thread_, [this] {
      RemoteCapture request;
      request.duration = options_.capture_duration;
      request.start = start_;
      request.attempts = options_.retries + 1;
      request.session_id = run_;
      // Empty: a path of this machine means nothing to the worker, and this command writes the files.
      request.repository_root = "";
      request.step_marker = options_.step_marker;
      CaptureFromWorkers(
          request, &workers_,
          [this](const RemoteWorker& worker, const std::string& name, const PieceReader& pieces) {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (name == kSummaryFile) return KeepSummary(worker.stem, pieces);
            // Such a file would be taken for a launcher's report about its ranks.
            if (name.ends_with(kSummaryFile)) return absl::DataLossError("it sent another summary");
            return directory_
                ->WriteBytes(StrCat(worker.stem, ".", name),
                             [&](Sink& sink) {
                               absl::Status status;
                               for (std::string_view piece; status.ok() && pieces(&piece);) status = sink.Append(piece);
                               return status;
                             })
                .status();
          },
          [this](const RemoteWorker& worker) { PrintWorker(worker); }, tls_.get());
    });
    if (started.ok()) return;
    for (RemoteWorker& worker : workers_) {
      worker.state = RemoteWorker::State::kFailed;
      worker.status = started;
      PrintWorker(worker);
    }
  }

  void PrintWorker(const RemoteWorker& worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string& name = worker.name;
    switch (worker.state) {
      case RemoteWorker::State::kRetrying:
        terminal_.Print(StrCat(name, ": ", std::string(worker.status.message()), "; trying again (", worker.attempts,
                               " of ", options_.retries + 1, ")"));
        return;
      case RemoteWorker::State::kDone:
        ++succeeded_;
        late_[worker.stem] = worker.late;
        if (worker.wrote_itself) {
          terminal_.Print(
              StrCat(name, ": done, and it sent no file: it has written into a directory of its own machine"));
        } else {
          terminal_.Print(StrCat(name, ": ", Size(worker.bytes), " after ", Took(worker.took)));
        }
        break;
      case RemoteWorker::State::kFailed:
        silent_.push_back(name);
        summaries_.erase(worker.stem);
        terminal_.Error(StrCat(name, ": ", Reason(worker.status)));
        break;
      case RemoteWorker::State::kCalling:
        return;
    }
  }

  static std::string Reason(const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kUnavailable:
        return StrCat("no reply: ", std::string(status.message()));
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
    uint64_t until_ns = 0;  // CLOCK_MONOTONIC, like the other times: the wall clock may be set
    uint64_t asked_ns = 0;
    int attempts = 0;
    std::string socket;
    bool is_open = false;            // its window, until the profile is there
    uint64_t again_ns = UINT64_MAX;  // when the next attempt starts; UINT64_MAX: none
  };

  void CaptureLocally() {
    for (const CaptureTarget& target : targets_.all) {
      if (!target.address.empty()) continue;
      Local local;
      local.name = target.name;
      local.stem = target.stem;
      local.socket = target.session.socket;
      AskLocal(&local);
      locals_.push_back(std::move(local));
    }
  }

  void AskLocal(Local* local) {
    ++local->attempts;
    local->again_ns = UINT64_MAX;
    local->asked_ns = ReadMonotonic();
    local->until_ns = local->asked_ns + Ns(options_.capture_delay + options_.capture_duration + kLocalPatience);
    absl::StatusOr<ControlConnection> connection = ControlConnection::Connect(local->socket);
    absl::Status status = connection.status();
    if (status.ok()) {
      ControlAsk ask{AskKind::kCapture, 1, {}};
      ask.capture.duration_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.capture_duration));
      ask.capture.start_unix_ns = static_cast<uint64_t>(absl::ToUnixNanos(start_));
      ask.capture.asked_by = StrCat("tbprof capture ", getpid());
      ask.capture.step_marker = options_.step_marker;
      ask.capture.publish = !here_;
      ask.capture.summary = here_;
      ask.capture.shared = !here_ && several();
      ask.capture.run = here_ || several() || !options_.run.empty() ? run_ : "";
      ask.capture.host = here_ || several() ? local->stem : "";
      status = connection->Send(ToText(ask));
      local->connection = std::make_unique<ControlConnection>(*std::move(connection));
    }
    if (!status.ok()) FailLocal(local, status);
  }

  void FailLocal(Local* local, const absl::Status& status) {
    local->connection.reset();
    if (std::exchange(local->is_open, false)) --open_windows_;
    const bool may_work =
        status.code() == absl::StatusCode::kAlreadyExists || status.code() == absl::StatusCode::kUnavailable;
    if (may_work && local->attempts <= options_.retries) {
      terminal_.Print(StrCat(local->name, ": ", std::string(status.message()), "; trying again (", local->attempts,
                             " of ", options_.retries + 1, ")"));
      local->again_ns = ReadMonotonic() + (uint64_t{1'000'000'000} << std::min(local->attempts - 1, 4));
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    silent_.push_back(local->name);
    summaries_.erase(local->stem);
    terminal_.Error(StrCat(local->name, ": ", std::string(status.message())));
  }

  void WaitForLocals() {
    std::vector<pollfd> fds;
    for (const Local& local : locals_) fds.push_back({local.connection ? local.connection->fd() : -1, POLLIN, 0});
    poll(fds.data(), fds.size(), 200);
    for (size_t i = 0; i < locals_.size(); ++i) {
      Local& local = locals_[i];
      if (local.connection == nullptr) {
        if (ReadMonotonic() >= local.again_ns) AskLocal(&local);
        continue;
      }
      if (fds[i].revents == 0) {
        if (ReadMonotonic() > local.until_ns) FailLocal(&local, absl::DeadlineExceededError("no answer in time"));
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
          if (!std::exchange(local.is_open, true)) ++open_windows_;
          local.until_ns = ReadMonotonic() +
                           Ns(std::max(absl::FromUnixNanos(static_cast<int64_t>(answer->closes_unix_ns)) - absl::Now(),
                                       absl::ZeroDuration()) +
                              kLocalPatience);
          break;
        case AnswerState::kWriting:
          local.until_ns = ReadMonotonic() + Ns(kLocalPatience);
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
    std::erase_if(locals_,
                  [](const Local& local) { return local.connection == nullptr && local.again_ns == UINT64_MAX; });
  }

  void TakeLocal(Local* local, const ControlAnswer& answer, const std::vector<ScopedFd>& descriptors) {
    absl::Status status;
    uint64_t bytes = 0;
    for (size_t i = 0; here_ && status.ok() && i < descriptors.size() && i < answer.files.size(); ++i) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (answer.files[i] == kSummaryFile) {
        status = KeepSummary(local->stem, descriptors[i].get());
        continue;
      }
      const absl::StatusOr<uint64_t> written = directory_->WriteBytes(
          StrCat(local->stem, ".", answer.files[i]), [&](Sink& sink) { return Copy(descriptors[i].get(), sink); });
      status = written.status();
      if (written.ok()) bytes += *written;
    }
    if (here_ && status.ok() && bytes == 0) status = absl::DataLossError("it sent no profile");
    (void)local->connection->Send(ToText(ControlAsk{status.ok() ? AskKind::kReceived : AskKind::kCancel, 1, {}}));
    if (!status.ok()) return FailLocal(local, status);
    if (std::exchange(local->is_open, false)) --open_windows_;
    ++succeeded_;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      late_[local->stem] = absl::Nanoseconds(local->asked_ns > start_ns_ ? local->asked_ns - start_ns_ : 0);
    }
    if (here_) {
      terminal_.Print(StrCat(local->name, ": ", Size(bytes), " after ",
                             Took(absl::Nanoseconds(ReadMonotonic() - local->asked_ns))));
    } else {
      for (const std::string& line : answer.lines) terminal_.Print(line);
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

  // ---- summaries

  // mutex_ is held. A reply is read to its end, also if the summary is too long.
  absl::Status KeepSummary(const std::string& stem, const PieceReader& pieces) {
    std::string& text = summaries_[stem];
    for (std::string_view piece; pieces(&piece);) {
      if (text.size() <= kMostFetchedSummaryBytes) text += piece;
    }
    return absl::OkStatus();
  }
  absl::Status KeepSummary(const std::string& stem, int fd) {
    class TextSink final : public Sink {
     public:
      absl::Status Append(std::string_view bytes) override {
        if (text.size() <= kMostFetchedSummaryBytes) text += bytes;
        return absl::OkStatus();
      }
      std::string text;
    } sink;
    const absl::Status status = Copy(fd, sink);
    if (status.ok()) summaries_[stem] = std::move(sink.text);
    return status;
  }

  // Writes the summaries beside the profiles, before these are published.
  void WriteSummaries() {
    const std::vector<RunDirectory::File> files = directory_->written();
    for (const auto& [stem, text] : summaries_) {
      absl::StatusOr<FetchedSummary> summary = absl::ResourceExhaustedError("it did not fit the reply");
      if (text.size() > kMostFetchedSummaryBytes) {
        summary = absl::ResourceExhaustedError(StrCat("it has over ", kMostFetchedSummaryBytes >> 20, " MiB"));
      } else if (!text.empty()) {
        summary = RewriteSummary(text, {directory_->run(), logdir_, stem, files});
      }
      absl::Status status = summary.status();
      if (status.ok()) {
        // As the launchers of one run name theirs. A run that the user has named may get files of others.
        const bool alone = !several() && options_.run.empty();
        status = directory_
                     ->WriteBytes(alone ? kSummaryFile : StrCat(stem, ".", kSummaryFile),
                                  [&](Sink& sink) { return sink.Append(summary->json); })
                     .status();
      }
      if (status.ok()) {
        lines_[stem] = std::move(summary->lines);
      } else {
        no_summary_[stem] = PrintableUtf8(std::string(status.message()));
      }
    }
  }

  // The lines of the summary; without one, those that the profile's warnings have, and why there is none.
  void PrintAnswers(const std::string& file, const NotedAnswers& notes) {
    const std::string stem = file.substr(0, file.find(".xplane.pb"));
    const auto lines = lines_.find(stem);
    if (lines == lines_.end()) {
      PrintVerdict(file, notes);
      if (IsOfAWorker(stem)) PrintNoSummary(stem);
      return;
    }
    if (several()) return terminal_.Print(StrCat(stem, ": ", lines->second.front()));
    for (const std::string& line : lines->second) terminal_.Print(line);
  }

  // False for files of further ranks, whose answers are in the summary of the first.
  bool IsOfAWorker(const std::string& stem) const {
    return std::ranges::any_of(targets_.all, [&](const CaptureTarget& target) { return target.stem == stem; });
  }

  void PrintNoSummary(const std::string& stem) {
    const auto why = no_summary_.find(stem);
    terminal_.Print(
        StrCat("no summary.json: ",
               why != no_summary_.end() ? why->second : StrCat(stem, " is another profiler, or an older tbprof"),
               "; report and compare know less"));
  }

  // ---- the end

  int Finish() {
    if (here_ && !directory_->written().empty()) {
      WriteSummaries();
      absl::StatusOr<std::vector<RunDirectory::File>> files = directory_->Publish();
      if (!files.ok()) {
        terminal_.Error(std::string(files.status().message()));
        return kExitNone;
      }
      for (const RunDirectory::File& file : *files) PrintFile(file);
      terminal_.Print(
          StrCat("view: ", ShellQuoted(ViewerCommand(CurrentEnvironment())), " --logdir ", ShellQuoted(logdir_)));
      terminal_.Print(StrCat("      then http://localhost:6006/#profile, run ", PrintableUtf8(directory_->run())));
    }
    if (!silent_.empty()) {
      terminal_.Error(
          StrCat(Counted(succeeded_, "worker"), " answered, ", silent_.size(), " did not: ", Listed(silent_)));
    }
    const std::vector<int> missing = targets_.MissingRanks();
    if (!missing.empty()) {
      terminal_.Error(StrCat("missing ranks: ", RankList(missing),
                             ": no launcher of theirs is on this machine or has left its port in ",
                             PrintableUtf8(logdir_)));
    }
    return succeeded_ == 0 ? kExitNone : silent_.empty() && missing.empty() ? 0 : kExitSome;
  }

  static std::string Listed(const std::vector<std::string>& names) {
    constexpr size_t kMostNamed = 64;
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) StrAppend(&text, i == 0 ? "" : ", ", names[i]);
    if (names.size() > kMostNamed) StrAppend(&text, " and ", names.size() - kMostNamed, " more");
    return text;
  }

  void PrintFile(const RunDirectory::File& file) {
    if (file.path.ends_with(kSummaryFile)) return;
    std::string text = StrCat(PrintableUtf8(file.path), "  ", Size(file.bytes));
    const ScopedFd fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::vector<std::string> warnings;
    if (fd.valid() && file.path.ends_with(".xplane.pb")) {
      XspaceFacts facts = SkimXspace(fd.get(), file.bytes);
      warnings = std::move(facts.warnings);
      if (facts.parsed) {
        StrAppend(&text, ", ", Counted(facts.planes, "plane"), ", ", Counted(facts.lines, "line"),
                  facts.has_events ? "" : ", no event");
      } else {
        terminal_.Warn(StrCat(PrintableUtf8(file.path), " is no profile: ", facts.cause));
      }
    }
    terminal_.Print(text);
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    PrintLate(name, warnings);
    PrintAnswers(name, ReadNotes(warnings));
  }

  // From the profile's warnings, for a worker that sends no summary.
  void PrintVerdict(std::string_view name, const NotedAnswers& answers) {
    const std::string of = several() ? StrCat(name.substr(0, name.find(".xplane.pb")), ": ") : "";
    if (!answers.verdict.empty()) terminal_.Print(StrCat(of, "verdict: ", PrintableUtf8(answers.verdict)));
    if (several()) return;
    if (!answers.where.empty()) {
      terminal_.Print(StrCat(answers.is_waited_for ? "blocker: " : "where: ", PrintableUtf8(answers.where)));
    }
    if (!answers.no_steps_because.empty()) {
      terminal_.Print(StrCat("steps unknown: ", PrintableUtf8(answers.no_steps_because)));
    }
  }

  // Prints the profile's own warning of a late start; without one, warns if this command called the worker more than
  // kLate after the agreed start.
  void PrintLate(const std::string& name, const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) {
      if (warning.starts_with(kBeganLate)) return terminal_.Warn(StrCat(name, ": ", PrintableUtf8(warning)));
    }
    for (const auto& [stem, late] : late_) {
      if (late < kLate || !name.starts_with(StrCat(stem, "."))) continue;
      terminal_.Warn(StrCat(name, ": ", kBeganLate, Took(late), " after the start that was agreed on"));
    }
  }

  const Options& options_;
  Terminal& terminal_;
  std::string logdir_, run_;
  CaptureTargets targets_;
  bool here_ = false;
  absl::Time start_;
  uint64_t start_ns_ = 0;  // start_ in CLOCK_MONOTONIC
  std::unique_ptr<RunDirectory> directory_;
  std::vector<RemoteWorker> workers_;
  std::vector<Local> locals_;
  std::thread remote_thread_;
  std::mutex mutex_;
  std::unique_ptr<TlsContext> tls_;  // --tls-ca
  Progress* progress_ = nullptr;
  std::atomic<size_t> succeeded_ = 0;
  std::atomic<size_t> open_windows_ = 0;                   // of sessions of this machine
  std::map<std::string, std::string> summaries_;           // by file stem: as the launchers sent them
  std::map<std::string, std::string> no_summary_;          // by file stem: why it was not written
  std::map<std::string, std::vector<std::string>> lines_;  // by file stem: of the summary
  std::vector<std::string> silent_;                        // names of workers that did not answer
  std::map<std::string, absl::Duration> late_;             // by file stem: how late the worker was called
};

}  // namespace

int CommandCapture(const Options& options) {
  Terminal terminal(options);
  signal(SIGPIPE, SIG_IGN);
  return CaptureCommand(options, &terminal).Main();
}

}  // namespace tbprof
