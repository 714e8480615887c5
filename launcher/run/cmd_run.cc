// SPDX-License-Identifier: Apache-2.0
//
// `tbprof run`: from the command line to the published profile. One poll loop does all regular waiting; flushes, the
// set-up and the close of the session also wait, with limits.
#include <malloc.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "launcher/capture/capture_manager.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/summary_file.h"
#include "launcher/gate/gate_run.h"
#include "launcher/run/conversion_queue.h"
#include "launcher/run/inherited_descriptors.h"
#include "launcher/run/left_processes.h"
#include "launcher/run/outcome.h"
#include "launcher/run/run_context.h"
#include "launcher/run/run_logdir.h"
#include "launcher/run/run_setup.h"
#include "launcher/run/window_policy.h"
#include "launcher/session/session.h"
#include "launcher/target/memory_limit.h"
#include "launcher/target/signals.h"
#include "launcher/target/target_process.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"
#include "writer/convert/timeline_builder.h"

namespace tbprof {
namespace {

// A child that was forked just before the command's end registers only when it first runs: --follow=all waits this long
// for it.
constexpr uint64_t kFirstSightNs = 250'000'000;
// How long a command in a process group of its own may wait for the terminal.
constexpr int kTerminalMs = 50;

class Run final : public CaptureRun {
 public:
  Run(const Options& options, Terminal* terminal, const AutoTimes& times)
      : options_(options), terminal_(*terminal), context_(options, terminal, times) {}

  // True if Main returned because the target had ended: the caller then exits with the target's status, after this
  // object is destroyed.
  bool leave_like_target() const { return leave_like_target_; }
  const TargetEnd& end() const { return end_; }

  int Main() {
    if (const std::optional<int> status = setup_.Prepare()) return *status;
    session_ = setup_.TakeSession();
    captures_ = std::make_unique<CaptureManager>(options_, this, session_.get(), &terminal_);
    conversions_ = std::make_unique<ConversionQueue>(&context_, &logdir_, session_.get(), captures_.get());
    window_ = WindowPolicy::Make({&context_, session_.get(), captures_.get(), conversions_.get()});
    if (const absl::Status opened = captures_->Open(); !opened.ok()) {
      if (options_.strict) {
        CloseUnused();
        return FailUnused(opened);
      }
      context_.Warn(StrCat(std::string(opened.message()), "; the command runs all the same"));
    }
    setup_.ReportGaps(session_.get());
    const SpawnRequest request = setup_.MakeSpawnRequest(*session_);
    setup_.PrintStart(captures_->StartLines());
    context_.command_start_ns = ReadMonotonic();
    int exec_errno = 0;
    setup_.signals().StartProbe();
    absl::StatusOr<TargetProcess> target = TargetProcess::Spawn(request, &exec_errno);
    if (!target.ok()) {
      CloseUnused();
      if (exec_errno == 0) return FailUnused(target.status());
      terminal_.Error(std::string(target.status().message()));
      return ExecFailureStatus(exec_errno);
    }
    target_ = &*target;
    inherited_.Release(options_);
    context_.state.capture_signal = options_.capture_signal;
    context_.state.target_running = true;
    window_->Start(context_.command_start_ns);
    Watch();
    return Finish();
  }

  // ---- what captures on request need (launcher/capture/capture_manager.h)

  void CloseAndConvert(uint32_t window) override { conversions_->CloseAndConvert(window); }
  void Convert(uint32_t window) override { conversions_->Convert(window); }
  size_t UnwrittenCaptures() const override { return conversions_->UnwrittenCaptures(); }
  bool TargetRuns() const override { return context_.TargetRuns(); }
  const std::string& logdir() const override { return logdir_.path(); }
  int logdir_fd() const override { return logdir_.held().fd.get(); }
  absl::Duration LogdirLimit() const override { return logdir_.ProbeLimit(); }
  const std::string& run_name() const override { return context_.run; }
  const std::string& host() const override { return context_.host; }
  std::string WindowText() const override { return tbprof::WindowText(options_.window); }
  bool RunWindowIsOpen() const override { return window_->is_open(); }
  const Job& job() const override { return context_.job; }

 private:
  // Closes a session whose command was never started.
  void CloseUnused() {
    session_->Close(EndFact{session_->Now(), -1, 0, 0, 0}, 5000);
    session_->RemoveSpool();
  }

  // tbprof cannot record: runs the command alone under --on-error=run.
  int FailUnused(const absl::Status& status) {
    captures_.reset();
    session_.reset();
    setup_.signals().StopProbe();
    return setup_.Fail(status);
  }

  // ---- the loop

  int TimeoutMs() {
    uint64_t until = captures_->NextNs();
    // After the session is closed the window policy is no longer called: a due time of it would make the loop spin.
    if (!context_.closed) until = std::min(until, window_->NextNs());
    if (options_.follow == Follow::kAll && context_.command_end_ns != 0 &&
        ReadMonotonic() < context_.command_end_ns + kFirstSightNs) {
      until = std::min(until, context_.command_end_ns + kFirstSightNs);
    }
    int timeout = !context_.closed ? session_->TimeoutMs() : 1000;
    if (context_.state.target_running && target_->MayNeedTerminal()) timeout = std::min(timeout, kTerminalMs);
    if (!conversions_->empty()) timeout = std::min(timeout, 200);  // to detect a stalled conversion
    if (until != UINT64_MAX) {
      const uint64_t now = ReadMonotonic();
      timeout = std::min(timeout, until <= now ? 0 : static_cast<int>((until - now) / 1'000'000 + 1));
    }
    return timeout;
  }

  void Poll() {
    std::vector<pollfd> fds = {{setup_.signals().fd(), POLLIN, 0}};
    if (!context_.closed && session_->listens()) {
      fds.push_back({session_->listen_fd(), POLLIN, 0});
      fds.push_back({session_->abstract_fd(), POLLIN, 0});
    }
    if (context_.state.target_running && target_->pidfd() >= 0) fds.push_back({target_->pidfd(), POLLIN, 0});
    conversions_->AppendWatched(&fds);
    captures_->AppendWatched(&fds);
    const size_t watched = fds.size();
    if (!context_.closed) session_->AppendWatched(&fds);
    poll(fds.data(), fds.size(), TimeoutMs());
    if (std::any_of(fds.begin() + static_cast<ptrdiff_t>(watched), fds.end(),
                    [](const pollfd& entry) { return entry.revents != 0; })) {
      session_->LookSoon();
    }
  }

  void Watch() {
    while (context_.state.target_running || (context_.state.following = Following())) {
      Poll();
      session_->Handle();
      TakeSignals();
      if (context_.state.target_running) target_->LendTerminal(false);
      ReportTroubles();
      window_->Handle(ReadMonotonic());
      captures_->Handle();
      conversions_->TakeResults();
      if (!context_.state.target_running) continue;
      if (const std::optional<TargetEnd> end = target_->Poll()) {
        end_ = *end;
        target_->TakeTerminal();
        session_->SetEnd(target_->pid(),
                         {end_.signaled ? -1 : end_.code, end_.signaled ? end_.code : 0, end_.core_dumped});
        context_.command_end_ns = ReadMonotonic();
        context_.state.target_running = false;
        if (end_.signaled && end_.code == SIGKILL && OutOfMemoryKills() > out_of_memory_kills_) {
          context_.Warn("the command was killed for lack of memory (OOM kill in its memory cgroup)");
        }
      }
    }
  }

  // --follow=all: waits for processes that outlive the command.
  bool Following() {
    if (options_.follow != Follow::kAll || stop_ || stop_following_) return false;
    ReapAdopted();
    const bool may_come = ReadMonotonic() < context_.command_end_ns + kFirstSightNs;
    session_->LookForProcesses();
    return session_->live_processes() > 0 || may_come;
  }

  void ReapAdopted() {
    for (;;) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      if (info.si_pid == target_->pid() || info.si_pid == setup_.signals().probe_pid()) return;
      if (info.si_pid == captures_->worker()) return;
      if (conversions_->Has(info.si_pid)) return;
      waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    }
  }

  void TakeSignals() {
    // Reads the facts that decide about a signal only if one is pending: they take two files of /proc, ten times the
    // cost of an idle turn. A signal that arrives later waits for the next turn.
    const bool pending = setup_.signals().Pending();
    if (pending && context_.state.target_running && options_.capture_signal != 0) {
      context_.state.target_has_handler =
          DispositionOf(target_->pid(), options_.capture_signal) == Disposition::kCaught;
      if (context_.state.target_has_handler && !context_.closed) {
        // The library sends its hello before it installs a handler: after session_->Handle() the session knows each
        // library handler that /proc shows.
        session_->Handle();
        context_.state.target_has_handler = !session_->HandlesCaptureSignal(target_->pid());
      }
    }
    context_.state.target_stopped = pending && context_.state.target_running && target_->stopped();
    context_.state.target_leads_group = pending && context_.state.target_running && target_->leads_group();
    const uint64_t of_targets = context_.closed ? 0 : session_->TakeCaptureRequests();
    uint64_t own = 0;
    // At most 16 signals per turn: on a busy machine further signals may arrive while the probe is asked, and the
    // timers must be handled too.
    for (int taken = 0; pending && taken < 16; ++taken) {
      const std::optional<SignalEvent> event = setup_.signals().Next(context_.state);
      if (!event.has_value()) break;
      if (event->forward && context_.state.target_running) target_->Forward(*event);
      switch (event->action) {
        case SignalAction::kCapture:
          ++own;
          break;
        case SignalAction::kReap:
          // As pid 1 of a container the launcher has to reap all orphans of the container.
          if (getpid() == 1) ReapAdopted();
          captures_->ContinueWorker();
          if (context_.state.target_running) {
            const std::optional<int> signo = target_->PollStopped();
            const bool uses_terminal = signo == SIGTTIN || signo == SIGTTOU;
            if (uses_terminal && target_->LendTerminal(true)) break;
            if ((signo == SIGTSTP || uses_terminal) && !target_->ContinueIfOrphaned()) {
              target_->StopLaunchersGroup(*signo);
              StopLike(*signo);
            }
          }
          break;
        case SignalAction::kWarnConverting:
          stop_following_ = true;
          terminal_.Print("writing the profile; interrupt once more to stop and keep the raw records");
          break;
        case SignalAction::kStopConverting:
          stop_ = true;
          break;
        case SignalAction::kForward:
        case SignalAction::kNone:
          break;
      }
      // A SIGKILL may follow within a second: writes the records to the file at once.
      if (event->signo == SIGTERM && !context_.closed) session_->RequestFlush();
    }
    if (own + of_targets > 0 && !context_.closed) captures_->AskBySignal(own, of_targets);
  }

  // Warns once on the terminal, so that the user can request a capture. The profiles show it as a gap.
  void ReportLimitedGpu() {
    if (printed_gpu_limited_) return;
    const pid_t pid = session_->FindLimitedGpu();
    if (pid == 0) return;
    printed_gpu_limited_ = true;
    terminal_.Warn(StrCat("process ", pid,
                          ": CUPTI gives no valid kernel times, after 8 restarts; GPU activity is recorded "
                          "only in windows and captures from now on; ",
                          kInvalidTimesRemedy));
  }

  void ReportTroubles() {
    ReportLimitedGpu();
    const SpoolWriter& spool = session_->spool();
    if (spool.write_error() != 0 && !printed_write_error_) {
      printed_write_error_ = true;
      context_.Warn(StrCat("cannot write the spool ", PrintableUtf8(session_->spool_path()), ": ",
                           strerror(spool.write_error()), "; what fits is kept"));
    }
  }

  // ---- the end

  // The spool's file system hangs: a conversion would hang too.
  int GiveUp() {
    conversions_->Abandon();
    terminal_.Error(StrCat("no profile: the raw records' directory does not answer (",
                           absl::FormatDuration(setup_.spool_limit()), "; a dead mount?)"));
    terminal_.Error(
        StrCat("what it has taken, when it answers again: tbprof recover ", ShellQuoted(session_->spool_path())));
    return Result(true);
  }

  // The exit status if the command succeeded but something that was requested failed.
  int Result(bool failed) {
    RunFacts facts;
    facts.end = end_;
    facts.failed = failed;
    facts.kernels = session_->spool().kernels();
    facts.gpu = session_->spool().gpu_facts();
    facts.captured = captures_->count() > 0;
    facts.not_recorded = setup_.not_recorded();
    captures_.reset();
    session_.reset();
    if (!conversions_->summary().lines.empty() || facts.captured) NameMissingViewer(&terminal_, options_.command);
    if (const std::optional<int> status = StatusInsteadOf(options_, facts, &terminal_)) return *status;
    if (!options_.baseline.empty()) {
      const std::optional<bool> worse = IsRunWorse(options_, conversions_->summary().directory, &terminal_);
      if (worse == true && !end_.signaled && end_.code == 0) return kExitCondition;
    }
    leave_like_target_ = true;
    return 0;
  }

  void WaitForConversions() {
    Progress progress(&terminal_, "writing the profile");
    while ((!conversions_->empty() || captures_->Waiting()) && !stop_) {
      Poll();
      TakeSignals();
      captures_->Handle();
      conversions_->TakeResults();
      if (!conversions_->empty()) progress.Update(conversions_->first().done(), conversions_->first().total());
    }
  }

  int Finish() {
    conversions_->RaisePriorities();
    session_->LookSoon();
    session_->Handle();
    const LeftProcesses left(session_->LivePids());
    window_->TakeTriggers();
    captures_->EndAll();
    window_->End();
    EndFact fact{};
    fact.ticks = session_->Now();
    fact.exit_code = end_.signaled ? -1 : end_.code;
    fact.exit_signal = end_.signaled ? end_.code : 0;
    fact.user_cpu_us = absl::ToInt64Microseconds(end_.user_cpu);
    fact.system_cpu_us = absl::ToInt64Microseconds(end_.system_cpu);
    const int patience_ms =
        static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(setup_.spool_limit()), 3'600'000));
    const bool answers = session_->Close(fact, patience_ms);
    context_.closed = true;
    if (!answers) return GiveUp();
    ReportTroubles();  // of the last writes
    if (const std::optional<uint32_t> window = window_->LastWindow()) conversions_->Enqueue(*window);
    session_->ReleaseTargets();  // while the conversion runs
    WaitForConversions();
    bool keep = options_.keep_spool || conversions_->failed() || (stop_ && captures_->Waiting());
    const bool stopped = stop_ && !conversions_->empty();
    if (stopped) {
      conversions_->Stop();
      keep = true;
      terminal_.Error("stopped before the profile was written");
    }
    if (!conversions_->printed_summary()) conversions_->PrintSummary();
    if (!terminal_.quiet()) {
      const std::string line = left.Line(session_->VariableStart());
      const bool follows = options_.follow == Follow::kChildren;
      if (!line.empty())
        terminal_.Print(StrCat(line, follows ? "; --follow=all records such processes to their end" : ""));
    }
    window_->Report();
    if (const std::string& text = conversions_->summary().summary_json; !text.empty()) {
      const absl::Status status = WriteSummaryJson(options_, context_.SummaryFile(), text);
      if (!status.ok()) conversions_->Fail(status);
    }
    const bool failed = stopped || conversions_->failed();
    SettleSpool(&terminal_, session_.get(), {keep, failed, logdir_.hangs()});
    return Result(failed);
  }

  const InheritedDescriptors inherited_;  // before those that open any
  const Options& options_;
  Terminal& terminal_;
  RunContext context_;
  RunLogdir logdir_{&context_};
  RunSetup setup_{&context_, &logdir_};
  std::unique_ptr<Session> session_;
  std::unique_ptr<CaptureManager> captures_;
  std::unique_ptr<ConversionQueue> conversions_;
  std::unique_ptr<WindowPolicy> window_;
  TargetProcess* target_ = nullptr;
  TargetEnd end_;
  const std::optional<uint64_t> out_of_memory_kills_ = OutOfMemoryKills();
  bool stop_ = false;
  bool stop_following_ = false;
  bool leave_like_target_ = false;
  bool printed_write_error_ = false;
  bool printed_gpu_limited_ = false;
};

}  // namespace

int CommandRun(const Options& options) {
  // Returns freed blocks of the drain's queue to the system: with malloc's adaptive threshold the launcher would keep
  // the memory of a burst until it ends.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  Terminal terminal(options);
  // The environment and tbprof.toml may have rules for `compare`.
  if (options.baseline.empty() && SourceOf(options, "fail-on") == OptionSource::kCommandLine) {
    terminal.Error("--fail-on: there is nothing to compare with: add --baseline=NAME");
    return kExitUsage;
  }
  if (!options.baseline.empty() && !CanGateRun(options, &terminal)) return kExitUsage;
  TargetEnd end;
  {
    Run run(options, &terminal, AutoTimesOf(getenv("TBPROF_TEST_AUTO")));
    const int status = run.Main();
    if (!run.leave_like_target()) return status;
    end = run.end();
  }
  ExitWithStatusOf(end);
}

}  // namespace tbprof
