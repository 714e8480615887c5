// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/run_setup.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/base/stack_limit.h"
#include "launcher/base/text.h"
#include "launcher/run/surroundings.h"
#include "launcher/service/tls.h"
#include "launcher/session/spools.h"
#include "launcher/target/memory_limit.h"
#include "wire/gpu_bridge.h"
#include "wire/name_number.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

// Whether the user named a part of the run: all its PyTorch operations are recorded instead of samples.
bool IsAskedFor(const Window& window) {
  return window.kind == Window::Kind::kRange || window.kind == Window::Kind::kSteps || window.is_triggered();
}

uint32_t GpuOptionsOf(const Options& options) {
  uint32_t bits = 0;
  const Cuda cuda = options.cuda;
  if (cuda == Cuda::kAuto || cuda == Cuda::kCupti) bits |= kGpuByCupti;
  if (cuda == Cuda::kAuto || cuda == Cuda::kHooks) bits |= kGpuByHooks;
  if (options.whole_cuda_graphs) bits |= kGpuWholeGraphs;
  if (options.cuda_unified_memory) bits |= kGpuUnifiedMemory;
  if (options.xla_annotations) bits |= kGpuXlaAnnotations;
  if (options.torch != Torch::kOff) bits |= kTorch;
  if (options.torch == Torch::kOperations || options.torch == Torch::kAll) bits |= kTorchOperations;
  if (options.torch == Torch::kAll || IsAskedFor(options.window)) bits |= kTorchAll;
  if (options.torch_shapes) bits |= kTorchShapes;
  return bits;
}

}  // namespace

SessionConfig SessionConfigOf(const RunContext& context) {
  const Options& options = context.options;
  SessionConfig config;
  static_cast<SessionOptions&>(config) = options;
  config.command = options.command;
  config.run = context.run;
  config.run_exclusive = context.run_exclusive;
  config.rank = context.job.rank.rank;
  config.scheduler = context.job.rank.scheduler;
  config.host = context.host;
  config.spool_limit = options.spool_limit;
  config.spool_rate = options.spool_rate;
  const Window::Kind kind = options.window.kind;
  if (kind == Window::Kind::kNvtx) {
    config.trigger = TriggerKind::kRange;
    config.trigger_name = NameNumberOf(options.window.range.data(), options.window.range.size());
  }
  if (kind == Window::Kind::kCudaProfiler) config.trigger = TriggerKind::kCudaProfiler;
  config.everything = kind == Window::Kind::kAuto || kind == Window::Kind::kAll || kind == Window::Kind::kSteps;
  if (kind == Window::Kind::kAuto) config.split_ns = context.times.end_ns;
  if (kind == Window::Kind::kLast) config.last_ns = Nanoseconds(options.window.duration);
  config.armed_at_start = config.everything || kind == Window::Kind::kLast ||
                          (kind == Window::Kind::kRange && options.window.delay == absl::ZeroDuration());
  config.keep_spool = options.keep_spool;
  config.record_arguments = options.record_argv;
  config.capture_signal = options.capture_signal;
  config.gpu_options = GpuOptionsOf(options);
  config.only_command = options.follow == Follow::kNone;
  if (options.malloc != MallocMode::kExact) config.malloc_stamp_every = 0;
  config.segment_bytes = SegmentBytes(options, CgroupMemoryLimit(), AddressSpaceLimit());
  config.window = WindowText(options.window);
  return config;
}

namespace {

// `; without --require-gpu, --baseline`: what the user asked of a run that passes through.
std::string IgnoredInside(const Options& options) {
  std::string ignored;
  for (const std::string_view name : {"baseline", "require-gpu", "strict", "summary-json", "port"}) {
    const OptionSource source = SourceOf(options, name);
    if (source != OptionSource::kCommandLine && source != OptionSource::kEnvironment) continue;
    StrAppend(&ignored, ignored.empty() ? "; without --" : ", --", name);
  }
  return ignored;
}

}  // namespace

std::optional<int> RunSetup::Prepare() {
  if (const absl::Status status = CheckOptions(); !status.ok()) {
    terminal_.Error(ToText(status));
    return kExitUsage;
  }
  preflight_ = CheckCommand(options_.command, environment_);
  if (preflight_.exit_status != 0) {
    terminal_.Error(preflight_.error);
    return preflight_.exit_status;
  }
  if (const auto outer = Lookup(environment_, kSessionVariable); outer && SessionListens(*outer)) {
    terminal_.Warn(StrCat("already inside a `tbprof run`: this one passes through, the outer one records",
                          IgnoredInside(options_)));
    return PlainExec();
  }
  context_.job = JobOf(environment_, options_.command);
  ParseRankChoice(options_.ranks.c_str(), &context_.choice);
  if (context_.job.sure_rank && !IsChosen(context_.choice, context_.job.rank)) {
    terminal_.Debug(StrCat("rank ", context_.job.rank.rank, " is not recorded (--ranks=", options_.ranks, ")"));
    return PlainExec();
  }
  if (!Prints()) terminal_.SetQuiet();
  for (const std::string& warning : options_.warnings) terminal_.Warn(warning);
  absl::StatusOr<Libraries> libraries = FindLibraries(environment_);
  if (!libraries.ok()) return Fail(libraries.status());
  libraries_ = *std::move(libraries);
  if (options_.require_gpu && libraries_.cupti.empty()) {
    return Fail(Unavailable(StrCat("--require-gpu: ", libraries_.no_cupti, "; is tbprof installed as a whole?")));
  }
  // Installed before the first file is written: a small RLIMIT_FSIZE must cause an error message, not an end by
  // SIGXFSZ.
  absl::StatusOr<SignalSet> signals = SignalSet::Install();
  if (!signals.ok()) return Fail(signals.status());
  signals_ = *std::move(signals);
  address_space_ = RaiseAddressSpaceLimit();
  if (const absl::Status enough = CheckMeans(); !enough.ok()) return Fail(enough);
  absl::Status status = CheckSummary();
  if (status.ok()) status = logdir_.Choose();
  if (status.ok()) status = MakeSessionSomewhere();
  if (!status.ok()) return Fail(status);
  for (const std::string& warning :
       WarningsOfSurroundings(environment_, logdir_.path(), address_space_, options_.segment_size)) {
    terminal_.Warn(warning);
  }
  return std::nullopt;
}

// Checks that the table of options cannot express.
absl::Status RunSetup::CheckOptions() const {
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

// What the run's end would need, and could not have: it is better known before the command starts.
absl::Status RunSetup::CheckMeans() {
  constexpr rlim_t kLeastDescriptors = 40;
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < kLeastDescriptors) {
    return absl::ResourceExhaustedError(
        StrCat("`ulimit -Hn` is ", files.rlim_max, ": tbprof needs ", kLeastDescriptors, " descriptors"));
  }
  const ScopedFd memory(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) {
    return Unavailable(
        StrCat("memfd_create: ", strerror(errno), "; let the system call filter of this container pass it"));
  }
  return CheckStackLimit();
}

// A file that others can have placed does not keep the command from its start.
absl::Status RunSetup::CheckSummary() const {
  const std::string path = context_.SummaryFile();
  const absl::Status status = CheckSummaryFile(path);
  std::error_code error;
  if (!status.ok() && OthersCanChange(std::filesystem::absolute(path, error))) return absl::OkStatus();
  return status;
}

// Only one of many ranks prints its lines; each rank prints its own errors.
bool RunSetup::Prints() const {
  if (context_.job.rank.rank < 0) return true;
  RankChoice print;
  if (options_.print_ranks.empty() || !ParseRankChoice(options_.print_ranks.c_str(), &print)) {
    return context_.job.rank.rank == context_.PrintingRank();
  }
  return IsChosen(print, context_.job.rank);
}

int RunSetup::PlainExec() {
  // What MakeSpawnRequest has set for the launcher would be the command's.
  if (descriptors_) setrlimit(RLIMIT_NOFILE, &*descriptors_);
  if (address_space_) setrlimit(RLIMIT_AS, &*address_space_);
  if (options_.follow == Follow::kAll) prctl(PR_SET_CHILD_SUBREAPER, 0);
  library_copy_.reset();
  SpawnRequest request{options_.command, environment_,
                       signals_.has_value() ? signals_->original() : OriginalSignals::Capture()};
  const int error = TargetProcess::Exec(request);
  terminal_.Error(StrCat("cannot run ", PrintableUtf8(options_.command[0]), ": ", strerror(error)));
  return ExecFailureStatus(error);
}

int RunSetup::Fail(const absl::Status& status) {
  const bool stops = options_.on_error == OnError::kStop;
  const bool no_room = stops && absl::IsResourceExhausted(status);
  terminal_.Error(StrCat(PrintableUtf8(ToText(status)),
                         no_room ? "; --on-error=run starts the command all the same, without a profile" : ""));
  if (stops) return kExitUsage;
  terminal_.Warn("--on-error=run: the command runs without a profile");
  return PlainExec();
}

// If another user changed the log directory since it was checked, or made --spool-dir unusable, the run only prints a
// warning and uses another place.
absl::Status RunSetup::MakeSessionSomewhere() {
  absl::StatusOr<std::string> spool_dir = options_.spool_dir;
  if (!spool_dir->empty()) spool_dir = NormaliseLogdir(*spool_dir, WorkingDirectory());
  if (!spool_dir.ok()) return spool_dir.status();
  absl::Status status = MakeSession(*spool_dir);
  if (!status.ok() && !spool_dir->empty() && OthersMayHaveCaused(status, *spool_dir)) {
    terminal_.Warn(StrCat(PrintableUtf8(ToText(status)), "; raw records go to the log directory instead"));
    spool_dir->clear();
    status = MakeSession("");
  }
  if (status.ok() || !spool_dir->empty() || !OthersCanChange(logdir_.path())) return status;
  if (absl::Status local = logdir_.UseLocal(status); !local.ok()) return local;
  return MakeSession("");
}

absl::Status RunSetup::MakeSession(const std::string& spool_dir) {
  const Job& job = context_.job;
  context_.run = !options_.run.empty() ? options_.run : !job.run.empty() ? job.run : RunNameFor(time(nullptr));
  // The ranks of a job, and tasks that the command starts on other machines, share one run directory.
  context_.run_exclusive = options_.run.empty() && job.rank.rank < 0 && !job.starts_remotely;
  SessionConfig config = SessionConfigOf(context_);
  config.logdir = logdir_.path();
  config.logdir_fd = logdir_.held().fd.get();
  config.spool_dir = spool_dir;
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(config);
  if (!session.ok()) return session.status();
  session_ = std::move(*session);
  spool_limit_ = RunLogdir::LimitFor(StorageOf(session_->spool().fd()), options_.publish_timeout);
  return absl::OkStatus();
}

void RunSetup::ReportGaps(Session* session) {
  if (options_.cuda != Cuda::kOff && libraries_.cupti.empty()) {
    context_.Warn(StrCat("no GPU work is recorded: ", libraries_.no_cupti, "; install tbprof as a whole"));
  }
  for (const std::string& reason : preflight_.reasons) context_.Warn(reason);
  if (preflight_.preload == Preload::kNo && !preflight_.reasons.empty()) not_recorded_ = preflight_.reasons[0];
  for (const std::string& note : session->TakeNotes()) context_.Warn(note);
  // systemd takes notifications of the process that it started.
  const bool is_service = Lookup(environment_, "SYSTEMD_EXEC_PID") == std::to_string(getpid());
  if (is_service && Lookup(environment_, "NOTIFY_SOCKET").has_value()) {
    terminal_.Warn("systemd takes what the command reports (sd_notify) only with NotifyAccess=all in the unit");
  }
  for (const std::string& note : preflight_.notes) terminal_.Debug(note);
}

// A child that changes its user must still be able to load the libraries.
void RunSetup::MakeReadableByAll() {
  if (!MayChangeUser()) return;
  LibraryCopy::Sweep();
  if (IsReadableByAll(libraries_.preload) && (libraries_.cupti.empty() || IsReadableByAll(libraries_.cupti))) return;
  absl::StatusOr<std::unique_ptr<LibraryCopy>> copy = LibraryCopy::Make(&libraries_);
  if (copy.ok()) {
    library_copy_ = *std::move(copy);
    return;
  }
  terminal_.Warn(StrCat(PrintableUtf8(libraries_.preload), " is readable by its owner only, and a copy failed (",
                        ToText(copy.status()),
                        "): a child that changes its user prints an error of ld.so and is not "
                        "recorded; install tbprof where all users can read it"));
}

// Environment variables of the command besides LD_PRELOAD.
std::vector<std::string> RunSetup::Additions(const Session& session) {
  std::vector<std::string> additions = {session.Variable(), StrCat("TBPROF_RUN=", context_.run),
                                        StrCat(kRanksVariable, "=", options_.ranks)};
  const auto by_user = [&](std::string_view option) {
    return SourceOf(options_, option) == OptionSource::kEnvironment;
  };
  additions.push_back(StrCat(kHostOfSession, "=", HostName()));
  if (!by_user("run")) additions.push_back(StrCat(kRunOfSession, "=", context_.run));
  if (!by_user("ranks")) additions.push_back(StrCat(kRanksOfSession, "=", options_.ranks));
  if (options_.cuda != Cuda::kOff && !libraries_.cupti.empty()) {
    // The variable names one library only: tbprof's library loads the one that was named before.
    const std::string_view theirs = Lookup(environment_, kInjectionVariable).value_or("");
    if (!theirs.empty() && theirs != libraries_.cupti) {
      additions.push_back(StrCat(kNextInjectionVariable, "=", theirs));
    }
    additions.push_back(StrCat(kInjectionVariable, "=", libraries_.cupti));
  }
  if ((options_.families & kFamilyAnnotation) != 0) {
    const std::string_view theirs = Lookup(environment_, kNvtxVariable).value_or("");
    // A library of an outer tbprof is replaced by this tbprof's own.
    if (theirs.empty() || theirs.ends_with(StrCat("/", kPreloadFileName))) {
      additions.push_back(StrCat(kNvtxVariable, "=", libraries_.preload));
    } else {
      context_.Warn(StrCat("NVTX's annotations go to ", ValidUtf8(std::string(theirs)), " (", kNvtxVariable,
                           ") and are not in the profile"));
    }
  }
  return additions;
}

SpawnRequest RunSetup::MakeSpawnRequest(const Session& session) {
  if (preflight_.preload != Preload::kNo) MakeReadableByAll();
  if (options_.follow == Follow::kAll) prctl(PR_SET_CHILD_SUBREAPER, 1);
  SpawnRequest request;
  request.command = options_.command;
  if (preflight_.preload == Preload::kNo) {
    request.environment = environment_;
  } else {
    request.environment = TargetEnvironment(environment_, libraries_.preload, Additions(session));
  }
  request.signals = signals_->original();
  request.descriptors = descriptors_ = RaiseDescriptorLimit();
  request.address_space = address_space_;
  return request;
}

std::string RunSetup::TracedText() const {
  std::string traced = FamilyNames(options_.families);
  if (traced.empty()) traced = "nothing";
  switch (options_.window.kind) {
    case Window::Kind::kAuto:
    case Window::Kind::kAll:
      break;
    case Window::Kind::kNone:
      traced += ", when asked,";
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
  return traced;
}

void RunSetup::PrintStart(const std::vector<std::string>& lines) {
  std::string line =
      StrCat("recording ", TracedText(), " to ", PrintableUtf8(logdir_.path()), ", run ", PrintableUtf8(context_.run));
  if (options_.capture_signal != 0) {
    line += StrCat("; capture: kill -", options_.capture_signal == SIGUSR1 ? "USR1 " : "USR2 ", getpid());
  }
  for (size_t i = 0; i < options_.config_files.size(); ++i) {
    line += StrCat(i == 0 ? "; options: " : ", ", PrintableUtf8(options_.config_files[i]));
  }
  terminal_.Print(line);
  for (const std::string& text : lines) terminal_.Print(text);
  if (context_.job.rank.rank >= 0 && context_.job.rank.world_size > kManyRanks &&
      context_.choice.kind == RankChoice::kAuto) {
    terminal_.Warn(
        StrCat(context_.job.rank.world_size, " ranks: only the first of each node is recorded; --ranks=all for all"));
  }
  if (context_.job.rank.world_size > 1 && options_.run.empty() && context_.job.run.empty()) {
    terminal_.Warn("no job number found: ranks that start in another second get another run; --run=NAME joins them");
  }
}

}  // namespace tbprof
