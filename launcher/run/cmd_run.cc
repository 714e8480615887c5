// SPDX-License-Identifier: Apache-2.0
//
// `tbprof run`: from the command line to the published profile. One ppoll loop; every wait is in it.
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "launcher/capture/capture_manager.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/conversion.h"
#include "launcher/service/tls.h"
#include "launcher/session/session.h"
#include "launcher/session/spools.h"
#include "launcher/target/command_python.h"
#include "launcher/target/gpu_probe.h"
#include "launcher/target/job.h"
#include "launcher/target/libraries.h"
#include "launcher/target/library_copy.h"
#include "launcher/target/memory_limit.h"
#include "launcher/target/preflight.h"
#include "launcher/target/signals.h"
#include "launcher/target/target_process.h"
#include "wire/gpu_bridge.h"
#include "wire/name_number.h"
#include "writer/base/summary_format.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/convert/timeline_builder.h"
#include "writer/logdir/logdir.h"
#include "writer/outputs/outputs.h"

namespace tbprof {
namespace {

uint64_t Nanoseconds(absl::Duration duration) { return static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration)); }

// Before the command starts; a file server that is only busy answers sooner.
constexpr absl::Duration kLookTimeout = absl::Seconds(5);
// So much longer is waited for a disk of this machine. It answers or fails, if late: on a busy machine the kernel's own
// threads, which end each write, have been seen without a CPU for a minute.
constexpr int kDiskPatience = 10;
// --window=auto: more calls for one event of the budget than this, and a profile of the whole run would show too little
// of it, and take too long to make.
constexpr uint64_t kMaxCallsPerEvent = 64;
constexpr size_t kMaxConversions = 2;  // at a time
constexpr uint64_t kStepsLookNs = 1'000'000'000;
// A child that was made at the command's end is seen when it has run for the first time.
constexpr uint64_t kFirstSightNs = 250'000'000;
// A range that comes each step of a long run would fill the disk with profiles.
constexpr uint32_t kMaxTriggered = 100;

// The windows of a run that does not fit one profile, from its start.
struct AutoTimes {
  uint64_t start_ns = 30'000'000'000;
  uint64_t steady_at_ns = 120'000'000'000;
  uint64_t steady_ns = 20'000'000'000;
  uint64_t end_ns = 30'000'000'000;
};
// TBPROF_TEST_AUTO=start,steady_at,steady,end in milliseconds: tests have no two minutes.
AutoTimes AutoTimesOf(const char* text) {
  AutoTimes times;
  unsigned start, steady_at, steady, end;
  if (text == nullptr || sscanf(text, "%u,%u,%u,%u", &start, &steady_at, &steady, &end) != 4) return times;
  constexpr uint64_t kMs = 1'000'000;
  return {start * kMs, steady_at * kMs, steady * kMs, end * kMs};
}

class Run final : public CaptureRun {
 public:
  Run(const Options& options, Terminal* terminal) : options_(options), terminal_(*terminal) {}

  // True when Main returned because the target had ended: the caller then ends the same way, with nothing of ours left.
  bool leave_like_target() const { return leave_like_target_; }
  const TargetEnd& end() const { return end_; }

  int Main() {
    if (const absl::Status status = CheckOptions(); !status.ok()) {
      terminal_.Error(ToText(status));
      return kExitUsage;
    }
    const Environment environment = CurrentEnvironment();
    const Preflight preflight = CheckCommand(options_.command, environment);
    if (preflight.exit_status != 0) {
      terminal_.Error(preflight.error);
      return preflight.exit_status;
    }
    if (const auto outer = Lookup(environment, kSessionVariable); outer && SessionListens(*outer)) {
      terminal_.Warn("already inside a `tbprof run`: this one passes through, the outer one records");
      return PlainExec(environment);
    }
    job_ = JobOf(environment, options_.command);
    ParseRankChoice(options_.ranks.c_str(), &choice_);
    if (job_.sure_rank && !IsChosen(choice_, job_.rank)) {
      terminal_.Debug(StrCat("rank ", job_.rank.rank, " is not recorded (--ranks=", options_.ranks, ")"));
      return PlainExec(environment);
    }
    if (!Prints()) terminal_.SetQuiet();
    for (const std::string& warning : options_.warnings) terminal_.Warn(warning);
    absl::StatusOr<Libraries> libraries = FindLibraries(environment);
    if (!libraries.ok()) return SetUpFailed(libraries.status(), environment);
    if (options_.require_gpu && libraries->cupti.empty()) {
      return SetUpFailed(
          Unavailable(StrCat("--require-gpu: ", libraries->no_cupti, "; is tbprof installed as a whole?")),
          environment);
    }
    // Before the first file is written: a small RLIMIT_FSIZE is an error to tell, no end by SIGXFSZ.
    absl::StatusOr<SignalSet> signals = SignalSet::Install();
    if (!signals.ok()) return SetUpFailed(signals.status(), environment);
    signals_ = &*signals;
    absl::Status status = ChooseLogdir();
    if (status.ok()) status = MakeSessionSomewhere();
    if (!status.ok()) return SetUpFailed(status, environment);
    desk_ = std::make_unique<CaptureManager>(options_, this, session_.get(), &terminal_);
    if (const absl::Status opened = desk_->Open(); !opened.ok()) {
      if (options_.strict) {
        session_->Close(EndFact{session_->Now(), -1, 0, 0, 0}, 5000);
        session_->RemoveSpool();
        desk_.reset();
        session_.reset();
        return SetUpFailed(opened, environment);
      }
      Tell(StrCat(ToText(opened), "; the command runs all the same"));
    }
    if (options_.cuda != Cuda::kOff && libraries->cupti.empty()) {
      warnings_.push_back(StrCat("no GPU work is recorded: ", libraries->no_cupti, "; install tbprof as a whole"));
      terminal_.Warn(warnings_.back());
    }
    for (const std::string& reason : preflight.reasons) {
      terminal_.Warn(reason);
      warnings_.push_back(reason);
    }
    if (preflight.preload == Preload::kNo && !preflight.reasons.empty()) not_recorded_ = preflight.reasons[0];
    for (const std::string& note : session_->TakeNotes()) Tell(note);
    for (const std::string& note : preflight.notes) terminal_.Debug(note);

    if (preflight.preload != Preload::kNo) MakeReadableByAll(&*libraries);
    if (options_.follow == Follow::kAll) prctl(PR_SET_CHILD_SUBREAPER, 1);
    SpawnRequest request;
    request.command = options_.command;
    if (preflight.preload == Preload::kNo) {
      request.environment = environment;
    } else {
      std::vector<std::string> additions = {session_->Variable(), StrCat("TBPROF_RUN=", run_),
                                            StrCat(kRanksVariable, "=", options_.ranks)};
      if (options_.cuda != Cuda::kOff && !libraries->cupti.empty()) {
        // The variable names one library: what it named before is loaded by ours.
        const std::string_view theirs = Lookup(environment, kInjectionVariable).value_or("");
        if (!theirs.empty() && theirs != libraries->cupti) {
          additions.push_back(StrCat(kNextInjectionVariable, "=", theirs));
        }
        additions.push_back(StrCat(kInjectionVariable, "=", libraries->cupti));
      }
      if ((options_.families & kFamilyAnnotation) != 0) {
        const std::string_view theirs = Lookup(environment, kNvtxVariable).value_or("");
        // An outer tbprof's is this program's own name for it.
        if (theirs.empty() || theirs.ends_with(StrCat("/", kPreloadFileName))) {
          additions.push_back(StrCat(kNvtxVariable, "=", libraries->preload));
        } else {
          Tell(StrCat("NVTX's annotations go to ", ValidUtf8(std::string(theirs)), " (", kNvtxVariable,
                      ") and are not in the profile"));
        }
      }
      request.environment = TargetEnvironment(environment, libraries->preload, additions);
    }
    request.signals = signals->original();
    request.descriptors = RaiseDescriptorLimit();
    SayStart();
    start_ns_ = ReadMonotonic();
    int exec_errno = 0;
    signals->StartWitness();
    absl::StatusOr<TargetProcess> target = TargetProcess::Spawn(request, &exec_errno);
    if (!target.ok()) {
      terminal_.Error(ToText(target.status()));
      session_->Close(EndFact{session_->Now(), -1, 0, 0, 0}, 5000);
      session_->RemoveSpool();
      return exec_errno != 0 ? ExecFailureStatus(exec_errno) : kExitUsage;
    }
    target_ = &*target;
    state_.capture_signal = options_.capture_signal;
    state_.target_running = true;
    Watch();
    return Finish();
  }

 private:
  static std::string ToText(const absl::Status& status) { return std::string(status.message()); }

  // A part of the run that the user names: its operations are not sampled.
  static bool IsAskedFor(const Window& window) {
    return window.kind == Window::Kind::kRange || window.kind == Window::Kind::kSteps || window.is_triggered();
  }

  // What the table of options cannot check.
  absl::Status CheckOptions() const {
    if (options_.summary_json_fd >= 0 && fcntl(options_.summary_json_fd, F_GETFD) < 0) {
      return absl::InvalidArgumentError(
          StrCat("--summary-json=fd:", options_.summary_json_fd, ": that descriptor is not open"));
    }
    if (options_.tls_cert.empty() != options_.tls_key.empty()) {
      return absl::InvalidArgumentError("--tls-cert and --tls-key belong together: give both");
    }
    if (!options_.tls_cert.empty()) {
      if (options_.port < 0) return absl::InvalidArgumentError("--tls-cert: there is no port; see --port, --listen");
      if (const auto identity = ReadTlsIdentity(options_.tls_cert, options_.tls_key); !identity.ok()) {
        return identity.status();
      }
    }
    return absl::OkStatus();
  }

  // A child that drops its user must still be able to load them.
  void MakeReadableByAll(Libraries* libraries) {
    if (!MayChangeUser()) return;
    LibraryCopy::Sweep();
    if (IsReadableByAll(libraries->preload) && (libraries->cupti.empty() || IsReadableByAll(libraries->cupti))) return;
    absl::StatusOr<std::unique_ptr<LibraryCopy>> copy = LibraryCopy::Make(libraries);
    if (copy.ok()) {
      library_copy_ = *std::move(copy);
      return;
    }
    terminal_.Warn(StrCat(PrintableUtf8(libraries->preload), " is readable by its owner only, and a copy failed (",
                          ToText(copy.status()),
                          "): a child that changes its user prints an error of ld.so and is not "
                          "recorded; install tbprof where all users can read it"));
  }

  int PrintingRank() const { return tbprof::PrintingRank(choice_, job_.rank); }

  // Of many ranks one speaks; what goes wrong each says itself.
  bool Prints() const {
    if (job_.rank.rank < 0) return true;
    RankChoice print;
    if (options_.print_ranks.empty() || !ParseRankChoice(options_.print_ranks.c_str(), &print)) {
      return job_.rank.rank == PrintingRank();
    }
    return IsChosen(print, job_.rank);
  }

  int PlainExec(const Environment& environment) {
    SpawnRequest request{options_.command, environment,
                         signals_ != nullptr ? signals_->original() : OriginalSignals::Capture()};
    const int error = TargetProcess::Exec(request);
    terminal_.Error(StrCat("cannot run ", PrintableUtf8(options_.command[0]), ": ", strerror(error)));
    return ExecFailureStatus(error);
  }

  // Before the command started: stop here, or with --on-error=run start it without us.
  int SetUpFailed(const absl::Status& status, const Environment& environment) {
    const bool stops = options_.on_error == OnError::kStop;
    const bool no_room = stops && absl::IsResourceExhausted(status);
    terminal_.Error(StrCat(PrintableUtf8(ToText(status)),
                           no_room ? "; --on-error=run starts the command all the same, without a profile" : ""));
    if (stops) return kExitUsage;
    terminal_.Warn("--on-error=run: the command runs without a profile");
    return PlainExec(environment);
  }

  absl::Status ChooseLogdir() {
    host_ = HostName();
    absl::StatusOr<std::string> logdir = NormaliseLogdir(options_.logdir, WorkingDirectory());
    if (!logdir.ok()) return logdir.status();
    logdir_ = *logdir;
    const absl::Duration limit = std::min(options_.publish_timeout, kLookTimeout);
    absl::Status status = WithinDeadline(limit, [this] {
      return StorageOf(Existing(logdir_)) == Storage::kRemote ? absl::UnavailableError("") : absl::OkStatus();
    });
    bool silent = absl::IsDeadlineExceeded(status);
    logdir_storage_ = status.ok() ? Storage::kDisk : Storage::kRemote;
    const absl::Duration patience = LimitFor(logdir_storage_, limit);
    if (!silent) {
      status = WithinDeadline(patience, [this] { return PrepareLogdir(logdir_, host_, options_.logdir_base); });
      silent = absl::IsDeadlineExceeded(status);
    }
    if (silent) status = absl::DeadlineExceededError(NoAnswer(patience));
    // Again in this process, which holds it from here on: what has been checked is what is written to.
    if (status.ok()) status = HoldLogdir(LogDirectory::Open(logdir_, options_.logdir_base));
    if (status.ok()) return status;
    // A named one that is wrong stops the command before it starts. One that hangs is nobody's mistake, and another
    // user must not stop the command.
    const bool mistake = !silent && !OthersMayHaveCaused(status, logdir_) &&
                         !OthersMayHaveCaused(status, StrCat(logdir_, "/plugins/profile"));
    return options_.logdir_required && mistake ? status : UseLocalLogdir(status);
  }

  // OK: the profile goes there.
  absl::Status UseLocalLogdir(const absl::Status& cause) {
    const absl::Status second = HoldLogdir(OpenLocalLogdir());
    if (!second.ok()) return cause;
    terminal_.Warn(StrCat(PrintableUtf8(ToText(cause)), "; writing to ", PrintableUtf8(logdir_), " instead"));
    logdir_storage_ = StorageOf(held_.fd.get());
    return absl::OkStatus();
  }

  absl::Status HoldLogdir(absl::StatusOr<LogDirectory> logdir) {
    if (!logdir.ok()) return logdir.status();
    held_ = *std::move(logdir);
    logdir_ = held_.path;
    return absl::OkStatus();
  }

  static absl::Duration LimitFor(Storage storage, absl::Duration limit) {
    return storage == Storage::kRemote ? limit : kDiskPatience * limit;
  }

  // In a directory that others use, too: one of ours, where nobody else can write.
  absl::StatusOr<LogDirectory> OpenLocalLogdir() const {
    const char* temporary = getenv("TMPDIR");
    const std::string wanted = StrCat("tbprof-logs-", static_cast<int>(geteuid()));
    absl::Status status;
    for (const std::string& base : {std::string(temporary != nullptr ? temporary : ""), std::string("/tmp")}) {
      if (!base.starts_with('/')) continue;
      const absl::StatusOr<FileDescriptor> parent = OpenDirectoryTrusted(base);
      status = parent.status();
      if (!parent.ok()) continue;
      std::string name;
      absl::StatusOr<FileDescriptor> made = OpenPrivateDirectory(parent->get(), wanted, &name);
      status = made.status();
      if (!made.ok()) continue;
      const std::string path = StrCat(base, "/", name);
      if (name != wanted) {
        terminal_.Warn(StrCat(PrintableUtf8(StrCat(base, "/", wanted)), " is not this user's alone: it is not used"));
      }
      std::string place = PathOfDirectory(made->get());
      status = PrepareLogdir(FileDescriptor(fcntl(made->get(), F_DUPFD_CLOEXEC, 0)), path, host_);
      if (status.ok()) return LogDirectory{*std::move(made), path, std::move(place)};
    }
    return status;
  }

  std::string NoAnswer(absl::Duration limit) const {
    return StrCat(PrintableUtf8(logdir_), " gives no answer (", absl::FormatDuration(limit), "; a dead mount?)");
  }

  absl::Duration PublishLimit(const std::string& logdir) const {
    return LimitFor(logdir == logdir_ ? logdir_storage_ : Storage::kDisk, options_.publish_timeout);
  }

  // What others have changed since the log directory was looked at, or have put at --spool-dir, costs a line.
  absl::Status MakeSessionSomewhere() {
    absl::StatusOr<std::string> spool_dir = options_.spool_dir;
    if (!spool_dir->empty()) spool_dir = NormaliseLogdir(*spool_dir, WorkingDirectory());
    if (!spool_dir.ok()) return spool_dir.status();
    absl::Status status = MakeSession(*spool_dir);
    if (!status.ok() && !spool_dir->empty() && OthersMayHaveCaused(status, *spool_dir)) {
      terminal_.Warn(StrCat(PrintableUtf8(ToText(status)), "; raw records go to the log directory instead"));
      spool_dir->clear();
      status = MakeSession("");
    }
    if (status.ok() || !spool_dir->empty() || !OthersCanChange(logdir_)) return status;
    if (absl::Status local = UseLocalLogdir(status); !local.ok()) return local;
    return MakeSession("");
  }

  absl::Status MakeSession(const std::string& spool_dir) {
    SessionConfig config;
    config.command = options_.command;
    config.logdir = logdir_;
    config.logdir_fd = held_.fd.get();
    config.run = !options_.run.empty() ? options_.run : !job_.run.empty() ? job_.run : RunNameFor(time(nullptr));
    // The ranks of a job, and tasks that the command starts elsewhere, share one.
    run_exclusive_ = options_.run.empty() && job_.rank.rank < 0 && !job_.starts_remotely;
    config.run_exclusive = run_exclusive_;
    config.ranks = options_.ranks;
    config.rank = job_.rank.rank;
    config.scheduler = job_.rank.scheduler;
    config.host = host_;
    config.spool_dir = spool_dir;
    config.spool_limit = options_.spool_limit;
    config.spool_rate = options_.spool_rate;
    config.families = options_.families;
    const Window::Kind kind = options_.window.kind;
    if (kind == Window::Kind::kNvtx) {
      config.trigger = TriggerKind::kRange;
      config.trigger_name = NameNumberOf(options_.window.range.data(), options_.window.range.size());
    }
    if (kind == Window::Kind::kCudaProfiler) config.trigger = TriggerKind::kCudaProfiler;
    config.everything = kind == Window::Kind::kAuto || kind == Window::Kind::kAll || kind == Window::Kind::kSteps;
    if (kind == Window::Kind::kAuto) config.split_ns = times_.end_ns;
    if (kind == Window::Kind::kLast) config.last_ns = Nanoseconds(options_.window.duration);
    config.armed_at_start = config.everything || kind == Window::Kind::kLast ||
                            (kind == Window::Kind::kRange && options_.window.delay == absl::ZeroDuration());
    config.keep_spool = options_.keep_spool;
    config.record_arguments = options_.record_argv;
    config.capture_signal = options_.capture_signal;
    const Cuda cuda = options_.cuda;
    if (cuda == Cuda::kAuto || cuda == Cuda::kCupti) config.gpu_options |= kGpuByCupti;
    if (cuda == Cuda::kAuto || cuda == Cuda::kHooks) config.gpu_options |= kGpuByHooks;
    if (options_.whole_cuda_graphs) config.gpu_options |= kGpuWholeGraphs;
    if (options_.cuda_unified_memory) config.gpu_options |= kGpuUnifiedMemory;
    if (options_.xla_annotations) config.gpu_options |= kGpuXlaAnnotations;
    if (options_.torch != Torch::kOff) config.gpu_options |= kTorch;
    if (options_.torch == Torch::kOperations || options_.torch == Torch::kAll) config.gpu_options |= kTorchOperations;
    if (options_.torch == Torch::kAll || IsAskedFor(options_.window)) config.gpu_options |= kTorchAll;
    if (options_.torch_shapes) config.gpu_options |= kTorchShapes;
    config.only_command = options_.follow == Follow::kNone;
    config.wait_threshold_ns = Nanoseconds(options_.wait_threshold);
    config.malloc_interval = options_.malloc_interval;
    config.step_marker = options_.step_marker;
    config.malloc_stamp_every = options_.malloc == MallocMode::kExact ? options_.malloc_stamp_every : 0;
    config.segment_bytes = SegmentBytes(options_, CgroupMemoryLimit());
    config.max_profile_size = options_.max_profile_size;
    config.also = options_.also;
    config.window = WindowText();
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(config);
    if (!session.ok()) return session.status();
    session_ = std::move(*session);
    spool_limit_ = LimitFor(StorageOf(session_->spool().fd()), options_.publish_timeout);
    run_ = config.run;
    run_window_open_ = config.armed_at_start;
    run_open_ticks_ = session_->run_open_ticks();
    return absl::OkStatus();
  }

  std::string WindowText() const override {
    switch (options_.window.kind) {
      case Window::Kind::kAuto:
        return "auto";
      case Window::Kind::kAll:
        return "all";
      case Window::Kind::kNone:
        return "none";
      case Window::Kind::kLast:
        return StrCat("last=", absl::FormatDuration(options_.window.duration));
      case Window::Kind::kSteps:
        return StrCat("steps=", options_.window.first_step, ":", options_.window.last_step);
      case Window::Kind::kNvtx:
        return StrCat("nvtx:", ValidUtf8(options_.window.range));
      case Window::Kind::kCudaProfiler:
        return "cuda-profiler";
      case Window::Kind::kRange:
        break;
    }
    return StrCat(absl::FormatDuration(options_.window.delay), "+", absl::FormatDuration(options_.window.duration));
  }

  void SayStart() {
    std::string traced = FamilyNames(options_.families);
    if (traced.empty()) traced = "nothing";
    switch (options_.window.kind) {
      case Window::Kind::kAuto:
      case Window::Kind::kAll:
        break;
      case Window::Kind::kNone:
        traced += " when asked";
        break;
      case Window::Kind::kNvtx:
        traced += StrCat(" while the program is in an NVTX range `", PrintableUtf8(options_.window.range), "`,");
        break;
      case Window::Kind::kCudaProfiler:
        traced += " from cudaProfilerStart to cudaProfilerStop,";
        break;
      case Window::Kind::kSteps:
        traced += StrCat(", of it steps ", options_.window.first_step, " to ", options_.window.last_step, ",");
        break;
      case Window::Kind::kLast:
        traced += StrCat(", of it the last ", absl::FormatDuration(options_.window.duration), ",");
        break;
      case Window::Kind::kRange:
        traced += StrCat(" for ", absl::FormatDuration(options_.window.duration), ", ",
                         absl::FormatDuration(options_.window.delay), " in,");
        break;
    }
    std::string line = StrCat("recording ", traced, " to ", PrintableUtf8(logdir_), ", run ", PrintableUtf8(run_));
    if (options_.capture_signal != 0) {
      line += StrCat("; capture: kill -", options_.capture_signal == SIGUSR1 ? "USR1 " : "USR2 ", getpid());
    }
    for (size_t i = 0; i < options_.config_files.size(); ++i) {
      line += StrCat(i == 0 ? "; options: " : ", ", PrintableUtf8(options_.config_files[i]));
    }
    terminal_.Say(line);
    for (const std::string& text : desk_->StartLines()) terminal_.Say(text);
    if (job_.rank.rank >= 0 && job_.rank.world_size > kManyRanks && choice_.kind == RankChoice::kAuto) {
      terminal_.Warn(
          StrCat(job_.rank.world_size, " ranks: only the first of each node is recorded; --ranks=all for all"));
    }
    if (job_.rank.world_size > 1 && options_.run.empty() && job_.run.empty()) {
      terminal_.Warn("no job number found: ranks that start in another second get another run; --run=NAME joins them");
    }
  }

  // ---- the loop

  int TimeoutMs() {
    uint64_t until = UINT64_MAX;
    if (desk_ != nullptr) until = desk_->NextNs();
    // Once the session is closed nobody looks at these, and one that is due would keep us awake.
    for (const uint64_t next : {range_next_ns_, start_next_ns_, steady_next_ns_, steps_next_ns_}) {
      if (next != 0 && !closed_) until = std::min(until, next);
    }
    if (options_.follow == Follow::kAll && end_ns_ != 0 && ReadMonotonic() < end_ns_ + kFirstSightNs) {
      until = std::min(until, end_ns_ + kFirstSightNs);
    }
    int timeout = session_ != nullptr && !closed_ ? session_->TimeoutMs() : 1000;
    if (!conversions_.empty()) timeout = std::min(timeout, 200);  // to see that one gets no answer
    if (until != UINT64_MAX) {
      const uint64_t now = ReadMonotonic();
      timeout = std::min(timeout, until <= now ? 0 : static_cast<int>((until - now) / 1'000'000 + 1));
    }
    return timeout;
  }

  void Poll() {
    std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
    if (!closed_ && session_->listens()) {
      fds.push_back({session_->listen_fd(), POLLIN, 0});
      fds.push_back({session_->abstract_fd(), POLLIN, 0});
    }
    if (state_.target_running && target_->pidfd() >= 0) fds.push_back({target_->pidfd(), POLLIN, 0});
    for (const auto& conversion : conversions_) fds.push_back({conversion->fd(), POLLIN, 0});
    desk_->AppendWatched(&fds);
    const size_t watched = fds.size();
    if (!closed_) session_->AppendWatched(&fds);
    poll(fds.data(), fds.size(), TimeoutMs());
    if (std::any_of(fds.begin() + static_cast<ptrdiff_t>(watched), fds.end(),
                    [](const pollfd& entry) { return entry.revents != 0; })) {
      session_->LookSoon();
    }
  }

  void Watch() {
    if (options_.window.kind == Window::Kind::kRange) {
      range_next_ns_ = start_ns_ + Nanoseconds(run_window_open_ ? options_.window.duration : options_.window.delay);
    }
    if (options_.window.kind == Window::Kind::kSteps) steps_next_ns_ = start_ns_ + kStepsLookNs;
    if (options_.window.kind == Window::Kind::kAuto) {
      start_next_ns_ = start_ns_ + times_.start_ns;
      steady_next_ns_ = start_ns_ + times_.steady_at_ns;
    }
    while (state_.target_running || (state_.following = Following())) {
      Poll();
      session_->Handle();
      TakeSignals();
      TakeTimers();
      desk_->Handle();
      TakeConversions();
      if (!state_.target_running) continue;
      if (const std::optional<TargetEnd> end = target_->Poll()) {
        end_ = *end;
        end_ns_ = ReadMonotonic();
        state_.target_running = false;
        if (end_.signaled && end_.code == SIGKILL && OutOfMemoryKills() > out_of_memory_kills_) {
          Tell("the command was killed for lack of memory (OOM kill in its memory cgroup)");
        }
      }
    }
  }

  // --follow=all: processes that outlive the command are waited for.
  bool Following() {
    if (options_.follow != Follow::kAll || stop_ || stop_following_) return false;
    ReapAdopted();
    const bool may_come = ReadMonotonic() < end_ns_ + kFirstSightNs;
    session_->LookForProcesses();
    return session_->live_processes() > 0 || may_come;
  }

  void ReapAdopted() {
    for (;;) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      if (info.si_pid == target_->pid() || info.si_pid == signals_->witness_pid()) return;
      if (info.si_pid == desk_->worker()) return;
      for (const auto& conversion : conversions_) {
        if (info.si_pid == conversion->pid()) return;
      }
      waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    }
  }

  void TakeSignals() {
    // What decides about a signal is asked for when there is one: two files of /proc, ten times as much as all else of
    // a turn in which nothing happens. One that comes meanwhile waits for the next turn.
    const bool pending = signals_->Pending();
    if (pending && state_.target_running && options_.capture_signal != 0) {
      state_.target_has_handler = DispositionOf(target_->pid(), options_.capture_signal) == Disposition::kCaught;
      if (state_.target_has_handler && !closed_) {
        // The library says hello before it handles anything: what /proc shows now, the session can know.
        session_->Handle();
        state_.target_has_handler = !session_->HandlesCaptureSignal(target_->pid());
      }
    }
    state_.target_stopped = pending && state_.target_running && target_->stopped();
    const uint64_t of_targets = closed_ ? 0 : session_->TakeCaptureRequests();
    uint64_t own = 0;
    // Some at a time: asking the witness takes long enough, on a busy machine, for the next of a storm to arrive, and
    // the timers have to be looked at.
    for (int taken = 0; pending && taken < 16; ++taken) {
      const std::optional<SignalEvent> event = signals_->Next(state_);
      if (!event.has_value()) break;
      if (event->forward && state_.target_running) (void)target_->Signal(event->signo, event->value);
      switch (event->action) {
        case SignalAction::kCapture:
          ++own;
          break;
        case SignalAction::kReap:
          // As a container's init, orphans of the whole container are ours to reap.
          if (getpid() == 1) ReapAdopted();
          desk_->ContinueWorker();
          if (state_.target_running) {
            const std::optional<int> signo = target_->PollStopped();
            if (signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU) StopLike(*signo);
          }
          break;
        case SignalAction::kWarnConverting:
          stop_following_ = true;
          terminal_.Say("writing the profile; interrupt once more to stop and keep the raw records");
          break;
        case SignalAction::kStopConverting:
          stop_ = true;
          break;
        case SignalAction::kForward:
        case SignalAction::kNone:
          break;
      }
      // The grace before a SIGKILL may be a second: what was recorded goes to the file at once.
      if (event->signo == SIGTERM && !closed_) session_->RequestFlush();
    }
    if (own + of_targets > 0 && !closed_) desk_->AskBySignal(own, of_targets);
  }

  // ---- what captures on request need (launcher/capture/capture_manager.h)

  size_t UnwrittenCaptures() const override {
    size_t count = static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), CaptureManager::IsCapture));
    for (const auto& conversion : conversions_) count += CaptureManager::IsCapture(conversion->request().window) ? 1 : 0;
    return count;
  }

  void Convert(uint32_t window) override {
    FlushBeforeConversion();
    Enqueue(window);
  }

  bool TargetRuns() const override { return !closed_ && (state_.target_running || state_.following); }
  const std::string& logdir() const override { return logdir_; }
  int logdir_fd() const override { return held_.fd.get(); }
  const std::string& run_name() const override { return run_; }
  const std::string& host() const override { return host_; }
  bool RunWindowIsOpen() const override { return run_window_open_ || steady_open_; }
  const Job& job() const override { return job_; }

  // ---- the run's own window

  bool FitsOneProfile() const {
    const SpoolWriter& spool = session_->spool();
    const uint64_t events = MostEvents(options_.max_profile_size);
    if (spool.stopped_ticks() != UINT64_MAX || spool.split_ticks() != UINT64_MAX) return false;
    return spool.long_spans() <= events && spool.spans() <= events * kMaxCallsPerEvent;
  }

  // Up to here the spool has all of the run.
  uint64_t EndOfEverything() const {
    return std::min(session_->spool().stopped_ticks(), session_->spool().split_ticks());
  }

  // The start of the run, while the rest of it goes on.
  void PublishStart() {
    session_->AddWindow(kStartWindow, run_open_ticks_, run_open_ticks_ + session_->TicksOf(times_.start_ns));
    start_next_ns_ = 0;
    FlushBeforeConversion();
    Enqueue(kStartWindow);
  }

  // From one profile to several. What of them lies behind us is still in the spool.
  void SplitRun() {
    split_ = true;
    const uint64_t start_to =
        std::min({session_->Now(), run_open_ticks_ + session_->TicksOf(times_.start_ns), EndOfEverything()});
    session_->SplitRun(start_to, times_.end_ns, start_next_ns_ != 0);
    terminal_.Say("too much for one profile: its start, a steady part and its end get one each");
    if (start_next_ns_ == 0) return;
    start_next_ns_ = 0;
    FlushBeforeConversion();
    Enqueue(kStartWindow);
  }

  // Each profile has it by the gap: a line for those who could ask for a capture now.
  void ReportLimitedGpu() {
    if (said_gpu_limited_) return;
    const pid_t pid = session_->FindLimitedGpu();
    if (pid == 0) return;
    said_gpu_limited_ = true;
    terminal_.Warn(StrCat("process ", pid,
                          ": CUPTI gives no valid kernel times, after 8 restarts; GPU activity is recorded "
                          "only in windows and captures from now on; ",
                          kInvalidTimesRemedy));
  }

  void CloseSteady() {
    steady_open_ = false;
    steady_next_ns_ = 0;
    CloseAndConvert(kSteadyWindow);
  }

  void WatchRunWindow(uint64_t now) {
    ReportLimitedGpu();
    const SpoolWriter& spool = session_->spool();
    if (spool.write_error() != 0 && !said_write_error_) {
      said_write_error_ = true;
      Tell(StrCat("cannot write the spool ", PrintableUtf8(session_->spool_path()), ": ", strerror(spool.write_error()),
                  "; what fits is kept"));
    }
    if (options_.window.kind == Window::Kind::kAuto && run_window_open_) {
      if (!split_ && !FitsOneProfile()) SplitRun();
      if (start_next_ns_ != 0 && now >= start_next_ns_) PublishStart();
    }
    const bool all = options_.window.kind == Window::Kind::kAll || options_.window.kind == Window::Kind::kSteps;
    if (all && run_window_open_ && spool.stopped_ticks() != UINT64_MAX) {
      // What came later would lie behind a gap. Captures go on: part of the limit is theirs.
      session_->CloseWindow(0, spool.stopped_ticks());
      run_window_open_ = false;
      steps_next_ns_ = 0;
      Tell(StrCat("the spool took no more after ",
                  absl::FormatDuration(absl::Seconds((now - start_ns_) / 1'000'000'000)), " (", session_->SpoolError(),
                  "): the run is recorded up to there"));
    }
    if (steady_next_ns_ == 0 || now < steady_next_ns_) return;
    if (steady_open_) {
      CloseSteady();
    } else {
      steady_open_ = true;
      session_->OpenWindow(kSteadyWindow);
      session_->RequestFlush();
      steady_next_ns_ = now + times_.steady_ns;
    }
  }

  // To the terminal and into every profile from now on.
  void Tell(const std::string& text) {
    terminal_.Warn(text);
    warnings_.push_back(text);
  }

  // --window=steps=A:B: what has been recorded so far is looked at by the very code that makes profiles of it, so that
  // the steps are those that the profile will show.
  void LookForSteps(uint64_t now) {
    if (steps_next_ns_ == 0 || now < steps_next_ns_ || !run_window_open_) return;
    steps_next_ns_ = 0;
    steps_asked_ns_ = now;
    session_->Flush(1000);
    ConversionRequest request;
    SetSpool(&request);
    request.extent = session_->ExtentOf(0);
    request.max_profile_size = options_.max_profile_size;
    request.summary_only = true;
    request.first_step = options_.window.first_step;
    request.last_step = options_.window.last_step;
    request.beside_command = true;
    absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
    if (conversion.ok()) {
      conversions_.push_back(std::move(*conversion));
    } else {
      steps_next_ns_ = now + 10 * kStepsLookNs;
    }
  }

  void TakeSteps(const ConversionResult& result) {
    const uint64_t now = ReadMonotonic();
    if (!run_window_open_ || closed_) return;
    if (!result.status.ok() || result.newest_step <= options_.window.last_step) {
      // Each look takes longer than the one before, and must not add up to much.
      steps_next_ns_ = now + std::max(kStepsLookNs, 4 * (now - steps_asked_ns_));
      return;
    }
    if (result.steps_from_ns < 0) {
      Tell(
          StrCat("--window=", WindowText(), ": the first step that was seen has a higher number; the run is recorded"));
      return;
    }
    session_->NarrowRun(session_->TicksInRun(static_cast<uint64_t>(result.steps_from_ns)),
                        session_->TicksInRun(static_cast<uint64_t>(result.steps_to_ns)));
    run_window_open_ = false;
    run_converted_ = true;
    FlushBeforeConversion();
    Enqueue(0);
  }

  static bool IsLookForSteps(const ConversionRequest& request) {
    return request.summary_only && request.last_step >= 0;
  }

  // --window=nvtx:NAME and cuda-profiler.
  void TakeTriggers() {
    for (const TriggerChange& change : session_->TakeTriggers()) {
      if (!change.opens) {
        if (desk_->is_triggered_open()) desk_->EndTriggered(change);
      } else if (triggered_ < kMaxTriggered) {
        ++triggered_;
        desk_->BeginTriggered(change.ticks);
        continue;
      } else {
        ++not_triggered_;
      }
      if (triggered_ == kMaxTriggered && !desk_->is_triggered_open() && !said_most_triggered_) {
        said_most_triggered_ = true;
        session_->DisarmTriggers();
        Tell(StrCat("--window=", WindowText(), ": ", kMaxTriggered,
                    " windows are recorded; further ranges are only counted"));
      }
    }
  }

  // At the end, in one line.
  void SayTriggered() {
    const uint64_t further = not_triggered_ + session_->triggers_missed();
    if (further > 0) {
      terminal_.Say(StrCat("--window=", PrintableUtf8(WindowText()), ": ", further, " more range",
                           further == 1 ? "" : "s", " came, and were not recorded"));
    }
    if (triggered_ > 0) return;
    terminal_.Say(StrCat(
        "--window=", PrintableUtf8(WindowText()), ": ",
        options_.window.kind == Window::Kind::kNvtx ? "no range of that name came" : "cudaProfilerStart was not called",
        desk_->count() > 0 ? "" : ": nothing was recorded, no profile written"));
  }

  void TakeTimers() {
    const uint64_t now = ReadMonotonic();
    WatchRunWindow(now);
    LookForSteps(now);
    TakeTriggers();
    if (range_next_ns_ != 0 && now >= range_next_ns_) {
      if (!run_window_open_) {
        session_->OpenWindow(0);
        run_window_open_ = true;
        range_next_ns_ = now + Nanoseconds(options_.window.duration);
      } else {
        range_next_ns_ = 0;
        run_window_open_ = false;
        run_converted_ = true;
        CloseAndConvert(0);
      }
    }
  }

  // ---- conversions

  // What the disk has not taken by then is not in the profile that is made now.
  void FlushBeforeConversion() {
    constexpr int kPatienceMs = 10'000;
    if (closed_ || session_->Flush(kPatienceMs, true) || !session_->SpoolError().empty()) return;
    Tell("the disk of the spool is too slow: what was recorded last is missing in the profile that is written now");
  }

  void CloseAndConvert(uint32_t window) override {
    session_->CloseWindow(window);
    FlushBeforeConversion();
    Enqueue(window);
  }

  void Enqueue(uint32_t window) {
    waiting_.push_back(window);
    StartConversions();
  }

  void StartConversions() {
    while (!waiting_.empty() && conversions_.size() < kMaxConversions) {
      const uint32_t window = waiting_.front();
      waiting_.pop_front();
      StartConversion(window);
    }
  }

  void SetSpool(ConversionRequest* request) {
    request->spool = session_->FindSpool();
    request->spool_directory = session_->spool_directory();
    request->spool_name = session_->spool_name();
  }

  static bool IsOfRun(uint32_t window) { return window == 0 || window == kEndWindow; }

  void StartConversion(uint32_t window) {
    ConversionRequest request;
    SetSpool(&request);
    request.extent = session_->ExtentOf(window);
    request.window = window;
    SetLogdir(held_, &request);
    request.run = window == 0 ? run_ : StrCat(run_, "_", WindowName(window));
    request.run_exclusive = run_exclusive_;
    request.host = host_;
    request.max_profile_size = options_.max_profile_size;
    request.also = options_.also;
    for (const std::string& note : session_->TakeNotes()) Tell(note);
    if (session_->targets_refused() > 1 && IsOfRun(window)) {
      Tell(StrCat(session_->targets_refused(), " programs were not recorded: too many at a time"));
    }
    request.warnings = warnings_;
    if (session_->records_not_kept() > 0) {
      const std::string missing = StrCat(session_->records_not_kept(), " records are missing: ", session_->SpoolError(),
                                         ": the spool ", PrintableUtf8(session_->spool_path()));
      request.warnings.push_back(missing);
      if (session_->records_not_kept() != said_not_kept_) terminal_.Warn(missing);
      said_not_kept_ = session_->records_not_kept();
    }
    request.wait_for_ranks =
        IsOfRun(window) && !run_exclusive_ && job_.rank.rank >= 0 && job_.rank.rank == PrintingRank();
    request.rank_wait_ms = static_cast<int>(
        std::min<int64_t>(absl::ToInt64Milliseconds(options_.rank_wait), std::numeric_limits<int>::max()));
    request.world_size = job_.rank.world_size;
    request.beside_command = TargetRuns();
    request.color = terminal_.color();
    request.width = std::min(terminal_.width(), 100);
    if (window == 0 && options_.window.kind == Window::Kind::kSteps && !run_converted_) {
      request.first_step = options_.window.first_step;
      request.last_step = options_.window.last_step;
    }
    // Somebody may wait for what is published while the run goes on.
    request.on_request = window == kStartWindow || window == kSteadyWindow;
    // A capture has a name of its own.
    if (CaptureManager::IsCapture(window)) desk_->Describe(window, &request);
    absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
    if (!conversion.ok()) {
      NotConverted(request, conversion.status());
      return;
    }
    conversions_.push_back(std::move(*conversion));
  }

  // One that never began: whoever waits for it is told, and its records may go when room is short.
  void NotConverted(const ConversionRequest& request, const absl::Status& status) {
    ConversionResult failed;
    failed.status = status;
    if (CaptureManager::IsCapture(request.window)) desk_->Converted(request, failed);
    if (!closed_) session_->Published(request.window, false);
    ConversionFailed(status);
  }

  void ConversionFailed(const absl::Status& status) {
    failed_ = true;
    terminal_.Error(PrintableUtf8(ToText(status)));
  }

  void TakeConversions() {
    for (auto at = conversions_.begin(); at != conversions_.end();) {
      Conversion& conversion = **at;
      if (!conversion.Read()) {
        if (CaptureManager::IsCapture(conversion.request().window)) {
          desk_->Progress(conversion.request(), conversion.done(), conversion.total());
        }
        if (conversion.Stalled() > PublishLimit(conversion.request().logdir)) {
          conversion.Abandon();
          const ConversionRequest request = conversion.request();
          at = conversions_.erase(at);
          PublishLocally(request);
        } else {
          ++at;
        }
        continue;
      }
      const ConversionResult& result = conversion.result();
      if (IsLookForSteps(conversion.request())) {
        const ConversionResult steps = result;
        at = conversions_.erase(at);
        TakeSteps(steps);
        continue;
      }
      const uint32_t window = conversion.request().window;
      // What a client has not got yet can still be published here.
      const bool done =
          CaptureManager::IsCapture(window) ? desk_->Converted(conversion.request(), result) : result.status.ok();
      if (!closed_ && (done || !result.status.ok())) session_->Published(window, done);
      if (!result.status.ok()) {
        ConversionFailed(result.status);
      } else if (window == kStartWindow || window == kSteadyWindow) {
        terminal_.Say(
            StrCat(window == kStartWindow ? "start" : "steady part", " of the run: ", PrintableUtf8(result.directory)));
      } else if (IsOfRun(window)) {
        summary_ = result;
        if (state_.target_running) SaySummary();
      }
      at = conversions_.erase(at);
    }
    StartConversions();
  }

  void SaySummary() {
    said_summary_ = true;
    for (const std::string& line : summary_.lines) terminal_.Say(line);
  }

  // The log directory hangs: the profile goes to a local one, once.
  void PublishLocally(ConversionRequest request) {
    logdir_hangs_ = true;
    const std::string cause = NoAnswer(PublishLimit(request.logdir));
    absl::Status status = absl::UnavailableError(cause);
    const bool already_local = local_.fd.get() >= 0 && request.logdir_fd == local_.fd.get();
    if (local_.fd.get() < 0) {
      if (absl::StatusOr<LogDirectory> local = OpenLocalLogdir(); local.ok()) local_ = *std::move(local);
    }
    if (!already_local && local_.fd.get() >= 0) {
      terminal_.Warn(StrCat(cause, "; writing the profile to ", PrintableUtf8(local_.path), " instead"));
      SetLogdir(local_, &request);
      request.warnings.push_back(StrCat(cause, "; this profile was written elsewhere"));
      request.wait_for_ranks = false;
      absl::StatusOr<std::unique_ptr<Conversion>> conversion = Conversion::Start(request);
      status = conversion.status();
      if (conversion.ok()) conversions_.push_front(std::move(*conversion));
    }
    if (!status.ok()) NotConverted(request, status);
  }

  // ---- the end

  // The spool's file system hangs: reading it would, too.
  int GiveUp() {
    for (const auto& conversion : conversions_) conversion->Abandon();
    conversions_.clear();
    terminal_.Error(StrCat("no profile: the raw records' directory gives no answer (",
                           absl::FormatDuration(spool_limit_), "; a dead mount?)"));
    terminal_.Error(
        StrCat("what it has taken, when it answers again: tbprof recover ", ShellQuoted(session_->spool_path())));
    failed_ = true;
    return Result();
  }

  // The exit status where the command has succeeded and something that was asked for has not.
  int Result() {
    const uint64_t kernels = session_->spool().kernels();
    const GpuFacts told = session_->spool().gpu_told();
    captured_ = desk_->count() > 0;
    desk_.reset();
    session_.reset();
    NameMissingViewer();
    const bool succeeded = !end_.signaled && end_.code == 0;
    const bool no_kernel = options_.require_gpu && succeeded && kernels == 0;
    if (no_kernel) terminal_.Error(StrCat("--require-gpu: no kernel was recorded: ", WhyNoKernel(told)));
    if (failed_ && options_.strict && succeeded) return kExitUsage;
    if (no_kernel) return kExitCondition;
    leave_like_target_ = true;
    return 0;
  }

  // The line with the viewing command is of no use where the command's own Python has no viewer. After the drain's
  // thread: a child looks, since the packages may lie on a file server that does not answer.
  void NameMissingViewer() {
    if (!said_summary_) return;
    const Environment environment = CurrentEnvironment();
    const absl::Status missing = WithinDeadline(absl::Seconds(2), [&] {
      const std::string python = PythonOfCommand(options_.command, environment, WorkingDirectory());
      const Viewer viewer = python.empty() ? Viewer::kTensorBoard : ViewerIn(PackagesOf(python, environment));
      if (viewer == Viewer::kTensorBoard) return absl::OkStatus();
      return viewer == Viewer::kNone ? absl::NotFoundError(python) : absl::UnavailableError(python);
    });
    if (!absl::IsNotFound(missing) && !absl::IsUnavailable(missing)) return;
    terminal_.Say(StrCat("      viewer missing in the command's Python: ", ShellQuoted(PrintableUtf8(ToText(missing))),
                         " -m pip install tensorboard", absl::IsNotFound(missing) ? " xprof" : "",
                         " (or any other Python)"));
  }

  // In one line, with what to do.
  std::string WhyNoKernel(const GpuFacts& told) const {
    bool recorded = false;
    std::string unavailable, program;
    for (const GpuStateChange& change : told.changes) {
      if (change.kind == GpuStateChange::kRecording) recorded = true;
      if (change.kind == GpuStateChange::kUnavailable && unavailable.empty()) unavailable = change.text;
      if (change.kind == GpuStateChange::kPaused && change.text.starts_with("program")) program = change.text;
    }
    if (unavailable.empty() && !told.hooks_asked_for()) unavailable = told.by_hooks;
    const auto driver = [] {
      GpuProbe probe({});
      return AnswerOf(probe.Wait());
    };
    if (!unavailable.empty()) {
      std::string text = PrintableUtf8(unavailable);
      const std::string_view remedy = GpuRemedy(unavailable);
      constexpr size_t kMostTried = 4;
      for (size_t i = 0; i < std::min(told.tried.size(), kMostTried); ++i) {
        StrAppend(&text, i == 0 ? "; tried " : ", ", PrintableUtf8(told.tried[i]));
      }
      const DriverAnswer answer = driver();
      if (!answer.works) StrAppend(&text, "; ", answer.found);
      return StrCat(text, "; ", answer.works && !remedy.empty() ? remedy : std::string_view(answer.fix));
    }
    if (!program.empty()) {
      const CuptiCause cause = LatestCuptiCause(told.cupti_uses);
      const std::string text = CuptiCauseText(cause, nullptr);
      return StrCat(PrintableUtf8(program), text.empty() ? "" : ", ", text, "; ", CuptiRemedy(cause.left));
    }
    if (options_.window.kind == Window::Kind::kNone && !captured_) {
      return "--window=none and no capture was asked for; ask for one, or leave out --window=none";
    }
    if (!not_recorded_.empty()) return PrintableUtf8(not_recorded_);
    const DriverAnswer answer = driver();
    if (!answer.works) return StrCat(answer.found, "; ", answer.fix);
    if (recorded) return "CUDA was started, and no kernel ran while a window was open; see --window";
    return StrCat("no recorded process called cuInit (there is a ", answer.found,
                  "); see that the program uses the GPU, and in processes that tbprof follows (--follow)");
  }

  int Finish() {
    conversions_.remove_if([](const auto& conversion) { return IsLookForSteps(conversion->request()); });
    for (const auto& conversion : conversions_) conversion->RaisePriority();
    session_->LookSoon();
    session_->Handle();
    TakeTriggers();
    desk_->EndAll();
    if (steady_open_ && split_) {
      CloseSteady();
    } else if (steady_open_) {
      // The whole run is one profile, and shows it.
      session_->CloseWindow(kSteadyWindow);
      session_->Published(kSteadyWindow, false);
    }
    if (run_window_open_) session_->CloseWindow(split_ ? kEndWindow : 0);
    EndFact fact{};
    fact.ticks = session_->Now();
    fact.exit_code = end_.signaled ? -1 : end_.code;
    fact.exit_signal = end_.signaled ? end_.code : 0;
    fact.user_cpu_us = absl::ToInt64Microseconds(end_.user_cpu);
    fact.system_cpu_us = absl::ToInt64Microseconds(end_.system_cpu);
    const int patience_ms = static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(spool_limit_), 3'600'000));
    const bool answers = session_->Close(fact, patience_ms);
    closed_ = true;
    if (!answers) return GiveUp();
    const bool wanted =
        options_.window.kind != Window::Kind::kNone && !options_.window.is_triggered() && !run_converted_;
    if (wanted) Enqueue(split_ ? kEndWindow : 0);
    {
      Progress progress(&terminal_, "writing the profile");
      while ((!conversions_.empty() || desk_->Waiting()) && !stop_) {
        Poll();
        TakeSignals();
        desk_->Handle();
        TakeConversions();
        if (!conversions_.empty()) progress.Update(conversions_.front()->done(), conversions_.front()->total());
      }
    }
    bool keep = options_.keep_spool || failed_ || (stop_ && desk_->Waiting());
    if (stop_ && !conversions_.empty()) {
      conversions_.clear();
      waiting_.clear();
      keep = true;
      failed_ = true;
      terminal_.Error("stopped before the profile was written");
    }
    if (!said_summary_) SaySummary();
    if (options_.window.is_triggered()) {
      SayTriggered();
    } else if (!wanted && !run_converted_ && desk_->count() == 0) {
      terminal_.Say("--window=none and no capture was asked for: nothing was recorded, no profile written");
    }
    if (!summary_.summary_json.empty()) {
      const absl::Status status = WriteSummaryJson(options_, summary_.summary_json);
      if (!status.ok()) ConversionFailed(status);
    }
    session_->FindSpool();
    if (keep && session_->spool_removed()) {
      terminal_.Error("raw records lost: their directory was removed");
    } else if (keep && failed_) {
      terminal_.Error(
          StrCat("raw records kept; to write the profile: tbprof recover ", ShellQuoted(session_->spool_path())));
    } else if (keep) {
      terminal_.Say(StrCat("raw records kept: tbprof convert ", ShellQuoted(session_->spool_path())));
    } else if (logdir_hangs_) {
      if (!WithinDeadline(kLookTimeout, [this] {
             session_->RemoveSpool();
             return absl::OkStatus();
           }).ok()) {
        terminal_.Warn(StrCat("raw records left behind: ", PrintableUtf8(session_->spool_path())));
      }
    } else {
      session_->RemoveSpool();
    }
    return Result();
  }

  const Options& options_;
  Terminal& terminal_;
  std::string host_, logdir_, run_;
  LogDirectory held_;   // logdir_, open from the start
  LogDirectory local_;  // where profiles go when that hangs
  Storage logdir_storage_ = Storage::kDisk;
  absl::Duration spool_limit_;  // of silence
  bool run_exclusive_ = true;
  Job job_{};
  RankChoice choice_{};
  std::vector<std::string> warnings_;
  SignalSet* signals_ = nullptr;
  SignalState state_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<CaptureManager> desk_;
  TargetProcess* target_ = nullptr;
  TargetEnd end_;
  uint64_t start_ns_ = 0, end_ns_ = 0;
  const std::optional<uint64_t> out_of_memory_kills_ = OutOfMemoryKills();
  bool closed_ = false;
  bool stop_ = false;
  bool stop_following_ = false;
  bool failed_ = false;
  bool logdir_hangs_ = false;
  bool leave_like_target_ = false;
  std::unique_ptr<LibraryCopy> library_copy_;
  bool captured_ = false;     // a capture was asked for
  std::string not_recorded_;  // why the command cannot be, known before its start

  bool run_window_open_ = false;
  bool run_converted_ = false;
  bool said_summary_ = false;
  uint64_t run_open_ticks_ = 0;
  uint64_t steps_next_ns_ = 0, steps_asked_ns_ = 0;  // --window=steps: the next look, the last
  const AutoTimes times_ = AutoTimesOf(getenv("TBPROF_TEST_AUTO"));
  uint32_t triggered_ = 0;  // windows that the program began
  uint64_t not_triggered_ = 0;
  bool said_most_triggered_ = false;
  bool split_ = false;  // --window=auto: the run became start, steady and end
  bool steady_open_ = false;
  uint64_t start_next_ns_ = 0;   // --window=auto: when the start ends; 0: it is taken
  uint64_t steady_next_ns_ = 0;  // when it opens or closes; 0: neither
  bool said_write_error_ = false;
  bool said_gpu_limited_ = false;
  uint64_t said_not_kept_ = 0;
  uint64_t range_next_ns_ = 0;
  std::list<std::unique_ptr<Conversion>> conversions_;
  std::deque<uint32_t> waiting_;  // windows whose conversion has not begun
  ConversionResult summary_;
};

}  // namespace

int CommandRun(const Options& options) {
  // Blocks of the drain's queue go back to the system when they are freed: with the threshold that malloc adapts, what
  // a busy moment has taken would be kept to the end.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  Terminal terminal(options);
  TargetEnd end;
  {
    Run run(options, &terminal);
    const int status = run.Main();
    if (!run.leave_like_target()) return status;
    end = run.end();
  }
  ExitWithStatusOf(end);
}

}  // namespace tbprof
