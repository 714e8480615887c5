// SPDX-License-Identifier: Apache-2.0
//
// `tbprof attach`: samples processes that were started without tbprof, and writes their profile.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/attach/process_tree.h"
#include "launcher/base/proc_stat.h"
#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/summary_file.h"
#include "launcher/run/conversion_queue.h"
#include "launcher/run/outcome.h"
#include "launcher/run/run_context.h"
#include "launcher/run/run_logdir.h"
#include "launcher/run/run_setup.h"
#include "launcher/run/surroundings.h"
#include "launcher/session/session.h"
#include "launcher/target/signals.h"
#include "launcher/target/target_process.h"
#include "wire/clock.h"
#include "writer/base/arguments.h"
#include "writer/base/utf8.h"
#include "writer/convert/timeline_builder.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr absl::Duration kDefaultDuration = absl::Seconds(10);
// Steps of four samples or more are found: at 100 a second, those of most trainings are too short.
constexpr uint32_t kDefaultRate = 250;
constexpr int kClosePatienceMs = 60'000;

// The options of a session that samples alone, of `first` and others.
Options OptionsFor(const Options& given, const RunningProcess& first) {
  Options options = given;
  options.command = first.arguments.empty() ? std::vector<std::string>{first.executable} : first.arguments;
  options.families = 0;
  options.malloc = MallocMode::kOff;
  options.torch = Torch::kOff;
  options.cuda = Cuda::kOff;
  options.window = Window();
  options.window.kind = Window::Kind::kAll;
  options.capture_signal = 0;
  if (SourceOf(given, "duration") == OptionSource::kDefault) options.capture_duration = kDefaultDuration;
  if (SourceOf(given, "sample-rate") == OptionSource::kDefault) options.sample_rate = kDefaultRate;
  return options;
}

absl::StatusOr<pid_t> ParsePid(const std::string& text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || end != text.data() + text.size() || pid <= 0) {
    return InvalidArgument(
        StrCat("`", PrintableUtf8(text), "` is no process id; usage: tbprof attach [options] PID..."));
  }
  return pid;
}

// The process, if tbprof may attach to it.
absl::StatusOr<RunningProcess> FindProcess(const std::string& operand) {
  const absl::StatusOr<pid_t> pid = ParsePid(operand);
  if (!pid.ok()) return pid.status();
  absl::StatusOr<RunningProcess> process = ReadRunningProcess(*pid);
  if (!process.ok()) return process;
  if (*pid == getpid()) return InvalidArgument("tbprof cannot attach to itself");
  if (const absl::Status access = CheckMemoryAccess(*process); !access.ok()) return access;
  const bool is_tbprof = BaseName(process->executable) == "tbprof";
  if (is_tbprof || HasTbprofLibrary(*pid)) {
    return InvalidArgument(StrCat("process ", *pid, is_tbprof ? " is tbprof itself" : " runs under `tbprof run`",
                                  ": take a capture with tbprof capture ", *pid));
  }
  return process;
}

// `4711 (train.py)`.
std::string NameOf(const RunningProcess& process) {
  const std::string name = ProcessName(process.executable, process.arguments);
  return StrCat(process.pid, name.empty() ? "" : StrCat(" (", PrintableUtf8(name), ")"));
}

class Attach {
 public:
  Attach(const Options& options, std::vector<RunningProcess> roots, Terminal* terminal)
      : options_(options), roots_(std::move(roots)), terminal_(*terminal), context_(options_, terminal, AutoTimes()) {}

  int Main() {
    if (const absl::Status status = Prepare(); !status.ok()) {
      terminal_.Error(PrintableUtf8(ToText(status)));
      return kExitUsage;
    }
    PrintStart();
    Watch();
    return Finish();
  }

 private:
  absl::Status Prepare() {
    absl::StatusOr<SignalSet> signals = SignalSet::Install();
    if (!signals.ok()) return signals.status();
    signals_ = *std::move(signals);
    RaiseAddressSpaceLimit();
    RaiseDescriptorLimit();
    if (IsProcOfOthers()) {
      return absl::FailedPreconditionError(
          "/proc belongs to another PID namespace, and shows other processes under these numbers; mount it in this one "
          "(unshare --mount-proc), or run tbprof outside");
    }
    absl::Status status = CheckSummaryFile(context_.SummaryFile());
    if (status.ok()) status = logdir_.Choose();
    if (!status.ok()) return status;
    context_.run = !options_.run.empty() ? options_.run : RunNameFor(time(nullptr));
    context_.run_exclusive = options_.run.empty();
    context_.state.capture_signal = 0;
    SessionConfig config = SessionConfigOf(context_);
    config.attached = true;
    config.logdir = logdir_.path();
    config.logdir_fd = logdir_.held().fd.get();
    if (!options_.spool_dir.empty()) {
      absl::StatusOr<std::string> spool_dir = NormaliseLogdir(options_.spool_dir, WorkingDirectory());
      if (!spool_dir.ok()) return spool_dir.status();
      config.spool_dir = *std::move(spool_dir);
    }
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(config);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    conversions_ = std::make_unique<ConversionQueue>(&context_, &logdir_, session_.get(), nullptr);
    for (const std::string& note : session_->TakeNotes()) context_.Warn(note);
    return AddProcesses();
  }

  absl::Status AddProcesses() {
    const AttachedProcess::Config config = {session_->nonce(), session_->clock(), options_.record_argv};
    tree_ = std::make_unique<ProcessTree>(session_.get(), config, options_.follow != Follow::kNone);
    for (const RunningProcess& root : roots_) {
      const absl::Status added = tree_->AddRoot(root);
      if (added.ok()) continue;
      session_->Close(EndFact{session_->Now(), -1, 0, 0, 0}, kClosePatienceMs);
      session_->RemoveSpool();
      return added;
    }
    context_.command_start_ns = ReadMonotonic();
    tree_->Handle(context_.command_start_ns);
    for (const RunningProcess& root : roots_) {
      const char state = SchedulerState(root.pid);
      if (state == 'T' || state == 't') {
        context_.Warn(StrCat("process ", root.pid,
                             " is stopped by a signal or a debugger: nothing of it runs; kill -CONT ", root.pid,
                             " lets it go on"));
      }
    }
    return absl::OkStatus();
  }

  void PrintStart() {
    std::string names;
    for (const RunningProcess& root : roots_) StrAppend(&names, names.empty() ? "" : ", ", NameOf(root));
    const size_t further = tree_->size() - std::min(tree_->size(), roots_.size());
    if (further > 0) StrAppend(&names, " and ", further, further == 1 ? " descendant" : " descendants");
    terminal_.Print(StrCat("sampling ", names, " for ", absl::FormatDuration(options_.capture_duration),
                           ", Ctrl-C ends it sooner; to ", PrintableUtf8(logdir_.path()), ", run ",
                           PrintableUtf8(context_.run)));
  }

  // Until the time is over, the processes have ended, or somebody interrupts.
  void Watch() {
    const uint64_t end_ns = context_.command_start_ns + Nanoseconds(options_.capture_duration);
    context_.state.following = true;
    for (;;) {
      const uint64_t now = ReadMonotonic();
      if (now >= end_ns || interrupted_ || !tree_->any_alive()) break;
      tree_->Handle(now);
      session_->Handle();
      const uint64_t until = std::min(end_ns, tree_->next_ns());
      const uint64_t left = until - std::min(until, ReadMonotonic());
      Poll(std::min(session_->TimeoutMs(), static_cast<int>(left / 1'000'000 + 1)));
      TakeSignals();
    }
    tree_->Finish();
  }

  void Poll(int timeout_ms) {
    std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
    conversions_->AppendWatched(&fds);
    if (!context_.closed) session_->AppendWatched(&fds);
    poll(fds.data(), fds.size(), timeout_ms);
    if (!context_.closed) session_->LookSoon();
  }

  void TakeSignals() {
    while (signals_->Pending()) {
      const std::optional<SignalEvent> event = signals_->Next(context_.state);
      if (!event.has_value()) return;
      if (event->action == SignalAction::kWarnConverting) {
        interrupted_ = true;
        if (context_.closed) {
          terminal_.Print("writing the profile; interrupt once more to stop and keep the raw records");
        }
      }
      if (event->action == SignalAction::kStopConverting) stop_ = true;
    }
  }

  int Finish() {
    session_->CloseWindow(0);
    if (tree_->left_out() > 0) {
      context_.Warn(StrCat(tree_->left_out(), " descendants are not sampled: ", tree_->why_left_out()));
    }
    const bool answers = session_->Close(EndFact{session_->Now(), -1, 0, 0, 0}, kClosePatienceMs);
    context_.closed = true;
    if (!answers) {
      terminal_.Error("no profile: the raw records' directory does not answer (a dead mount?)");
      return kExitUsage;
    }
    conversions_->Enqueue(0);
    session_->ReleaseTargets();
    while (!conversions_->empty() && !stop_) {
      Poll(200);
      TakeSignals();
      conversions_->TakeResults();
    }
    return Report();
  }

  int Report() {
    const bool stopped = stop_ && !conversions_->empty();
    if (stopped) {
      conversions_->Stop();
      terminal_.Error("stopped before the profile was written");
    }
    if (!conversions_->printed_summary()) conversions_->PrintSummary();
    if (const std::string& text = conversions_->summary().summary_json; !text.empty()) {
      const absl::Status status = WriteSummaryJson(options_, context_.SummaryFile(), text);
      if (!status.ok()) conversions_->Fail(status);
    }
    const bool failed = stopped || conversions_->failed();
    const bool keep = options_.keep_spool || failed;
    SettleSpool(&terminal_, session_.get(), {keep, failed, logdir_.hangs()});
    session_.reset();
    if (!conversions_->summary().lines.empty()) NameMissingViewer(&terminal_, options_.command);
    return failed ? kExitUsage : 0;
  }

  const Options options_;
  const std::vector<RunningProcess> roots_;
  Terminal& terminal_;
  RunContext context_;
  RunLogdir logdir_{&context_};
  std::optional<SignalSet> signals_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ConversionQueue> conversions_;
  std::unique_ptr<ProcessTree> tree_;
  bool interrupted_ = false, stop_ = false;
};

}  // namespace

int CommandAttach(const Options& options) {
  Terminal terminal(options);
  if (options.operands.empty()) {
    terminal.Error("attach needs a process: tbprof attach PID...");
    return kExitUsage;
  }
  std::vector<RunningProcess> roots;
  for (const std::string& operand : options.operands) {
    const absl::StatusOr<RunningProcess> process = FindProcess(operand);
    if (!process.ok()) {
      terminal.Error(PrintableUtf8(ToText(process.status())));
      return kExitUsage;
    }
    roots.push_back(*process);
  }
  const Options of_session = OptionsFor(options, roots.front());
  return Attach(of_session, std::move(roots), &terminal).Main();
}

}  // namespace tbprof
