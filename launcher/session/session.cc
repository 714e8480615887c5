// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/session.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "launcher/base/proc_files.h"
#include "launcher/base/version.h"
#include "launcher/session/machine_facts.h"
#include "launcher/session/own_cost.h"
#include "launcher/session/session_clock.h"
#include "writer/base/secrets.h"
#include "writer/base/summary_format.h"

namespace tbprof {
namespace {

constexpr uint64_t kLookIntervalNs = 50'000'000;
constexpr uint64_t kIdleLookIntervalNs = 1'000'000'000;
constexpr uint64_t kDisarmedLookIntervalNs = 100'000'000;
constexpr uint64_t kClockIntervalNs = 1'000'000'000;
// The drain's interval while nothing is recorded. Each pass wakes a core that the program may be waiting for.
constexpr int kIdleDrainMs = 100;
// The drain's interval while no family is armed. A capture that is requested in a target begins at most this much
// later.
constexpr int kDisarmedDrainMs = 200;
// After activity the launcher uses the short intervals for this time: more activity is likely.
constexpr uint64_t kBusyNs = 1'000'000'000;
constexpr uint64_t kLargeAllocation = 1u << 20;
constexpr uint64_t kSlowAllocationNs = 100'000;
constexpr uint64_t kPythonWaitNs = 100'000;
constexpr uint32_t kMaxInert = 10000;
// A flush normally takes a few ms; a lost device must not hold up the window.
constexpr int kGpuFlushMs = 1000;
constexpr int kSamplerFlushMs = 1000;
constexpr int kCoreFlushMs = 2000;
// Of all CPUs, for a few seconds that somebody asked for.
constexpr double kShareOfAttached = 0.03;
constexpr uint64_t kLateNs = 500'000'000;
// How long records are kept until the launcher sees the window that a program has begun. The launcher may be in the
// flush before a conversion, which a slow disk or a GPU holds up.
constexpr uint64_t kTriggerPatienceNs = 5'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionConfig& config) {
  std::unique_ptr<Session> session(new Session());
  session->config_ = config;
  if (getrandom(&session->nonce_, sizeof(session->nonce_), 0) != sizeof(session->nonce_)) {
    session->nonce_ = ReadMonotonic() ^ static_cast<uint64_t>(getpid()) << 32;
  }
  session->clock_ = ChooseClock();
  const ClockFact first = ReadClockPair(session->clock_);
  session->rendezvous_ = std::make_unique<Rendezvous>(
      session->nonce_,
      [self = session.get()](Introduction introduction) { self->TakeIntroduction(std::move(introduction)); },
      &session->notes_);
  absl::Status status = session->rendezvous_->Open(config.logdir, config.logdir_fd);
  if (!status.ok()) return status;
  session->ticks_per_ns_ = MeasureTickRate(session->clock_, first);
  status = session->MakeSpool();
  if (status.ok()) {
    session->RecordStart(first);
    status = session->drain_->Start();
  }
  if (!status.ok()) {
    if (session->drain_ != nullptr) session->RemoveSpool();
    return status;
  }
  if (config.armed_at_start) session->OpenWindow(0);
  return session;
}

absl::Status Session::MakeSpool() {
  absl::StatusOr<ScopedFd> file = home_.Make(config_, nonce_);
  if (!file.ok()) return file.status();
  if (home_.in_memory()) {
    notes_.push_back(absl::StrCat("the spool is in memory (", home_.path().substr(0, home_.path().rfind('/')),
                                  "), at most ", home_.limit() >> 20,
                                  " MiB of it; --spool-dir=DIR on a disk takes more"));
  }
  SpoolPlan plan = home_.Plan(config_);
  if (config_.split_ns != 0) plan.split_sliding_ticks = TicksOf(config_.split_ns);
  plan.session = nonce_;
  plan.long_ticks = std::max<uint64_t>(TicksOf(config_.long_span_ns), 1);
  drain_ = std::make_unique<Drain>(*std::move(file), clock_, plan, home_.OpenDirectory());
  const auto emit = [drain = drain_.get()](FrameType type, uint32_t segment, const void* payload, size_t size) {
    drain->Append(type, segment, payload, size);
  };
  cores_ = std::make_unique<CrashCores>(clock_, ticks_per_ns_, emit, &notes_);
  if (config_.sample_rate != 0) {
    SamplerOptions options = {.clock = clock_, .rate = config_.sample_rate, .all_blocked = config_.attached};
    options.blocked_before = !config_.attached && !config_.armed_at_start;
    if (config_.attached) options.max_cpu_share = kShareOfAttached;
    sampler_ = std::make_unique<StackSampler>(options, emit);
    native_sampler_ = std::make_unique<NativeSampler>(options, emit);
    if (!sampler_->started().ok()) return sampler_->started();
    if (!native_sampler_->started().ok()) return native_sampler_->started();
  }
  targets_ = std::make_unique<TargetRegistry>(
      drain_.get(), TargetRegistry::Readers{sampler_.get(), native_sampler_.get(), cores_.get()}, clock_, &notes_);
  governor_ = std::make_unique<SamplingGovernor>(config_.malloc_interval, config_.spool_rate);
  windows_ =
      WindowLedger(config_, TicksOf(config_.trigger != TriggerKind::kNone ? kTriggerPatienceNs : config_.last_ns));
  SetDrainInterval();
  SetRetention();
  return absl::OkStatus();
}

void Session::RecordStart(const ClockFact& first) {
  const OwnCost cost = MeasureOwnCost(clock_, ticks_per_ns_);
  SessionFacts facts{config_};
  facts.tbprof = Version();
  facts.host = config_.host;
  facts.logdir = config_.logdir;
  facts.run = config_.run;
  facts.run_exclusive = config_.run_exclusive;
  facts.launcher_pid = getpid();
  facts.clock = static_cast<uint32_t>(clock_);
  facts.ticks_per_ns = ticks_per_ns_;
  facts.clock_cost_ns = cost.clock_ns;
  facts.record_cost_ns = cost.record_ns;
  facts.allocation_cost_ns = cost.allocation_ns;
  facts.page_cost_ns = cost.page_ns;
  const MachineFacts machine = ReadMachineFacts();
  facts.cpu_model = machine.cpu_model;
  facts.kernel = machine.kernel;
  facts.cpus = machine.cpus;
  facts.memory_bytes = machine.memory_bytes;
  facts.window = config_.window;
  facts.rank = config_.rank;
  facts.scheduler = config_.scheduler;
  facts.only_command = config_.only_command;
  facts.attached = config_.attached;
  facts.start_unix_ns = first.realtime_ns;
  facts.start_ticks = first.ticks;
  if (config_.record_arguments) {
    facts.command = MaskSecrets(config_.command);
  } else if (!config_.command.empty()) {
    facts.command = {config_.command[0]};
  }
  const std::string text = FormatSession(facts);
  drain_->Append(FrameType::kSession, 0, text.data(), text.size());
  drain_->Append(FrameType::kClock, 0, &first, sizeof(first));
}

Session::~Session() {
  sampler_.reset();
  native_sampler_.reset();
  cores_.reset();
  if (hangs_) {
    (void)drain_.release();
  } else if (drain_ != nullptr) {
    drain_->Stop();
  }
}

std::string Session::Variable() const {
  const uint32_t chunks =
      static_cast<uint32_t>(std::clamp<uint64_t>(config_.segment_bytes / kChunkBytes, kMinChunks, kMaxChunks));
  SessionVariable variable{};
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) variable.name = config_.name;
#include "wire/settings.def"
  rendezvous_->socket_path().copy(variable.socket_path, kMaxSocketPath);
  variable.nonce = nonce_;
  variable.clock_kind = static_cast<uint32_t>(clock_);
  variable.families = windows_.ArmedFamilies();
  variable.wait_threshold_ticks = TicksOf(config_.wait_threshold_ns);
  variable.large_allocation = kLargeAllocation;
  variable.slow_allocation_ticks = TicksOf(kSlowAllocationNs);
  variable.chunks = chunks;
  variable.only_child_of = config_.only_command ? static_cast<uint32_t>(getpid()) : 0;
  variable.record_arguments = config_.record_arguments ? 1 : 0;
  variable.handle_signal = static_cast<uint32_t>(config_.capture_signal);
  variable.seccomp_filters = SeccompFilters(ReadText("/proc/self/status").c_str());
  variable.gpu_options = config_.gpu_options;
  variable.trigger_kind = static_cast<uint32_t>(config_.trigger);
  variable.trigger_name = config_.trigger_name;
  variable.trigger_families = config_.families;
  variable.python_wait_ticks = config_.sample_rate > 0 ? TicksOf(kPythonWaitNs) : 0;
  return FormatSessionVariable(variable);
}

void Session::Handle() {
  rendezvous_->Receive();
  const uint64_t now = ReadMonotonic();
  if (now >= next_look_ns_) {
    if (drain_->ConsumeActivity(now >= busy_until_ns_)) busy_until_ns_ = now + kBusyNs;
    // All targets get the same time: an end that is seen must not be later than it.
    for (const auto& target : targets_->targets()) targets_->UpdateProcesses(target.get(), now);
    targets_->RemoveEnded(now, [&](uint32_t segment) { triggers_.ForgetSegment(segment, Now()); });
    if (config_.capture_signal != 0) capture_requests_ += targets_->ReadCaptureRequests();
    if (config_.trigger != TriggerKind::kNone) ReadTriggers();
    next_look_ns_ = now + (now >= busy_until_ns_ ? kIdleLookIntervalNs
                           : armed()             ? kLookIntervalNs
                                                 : kDisarmedLookIntervalNs);
  }
  // Done up to a quarter of an interval early, together with a look, to save a wake-up.
  if (now + kIdleLookIntervalNs / 4 >= next_clock_ns_) {
    TakeClockPair();
    AdaptSampling(now);
    next_clock_ns_ = now + kClockIntervalNs;
  }
}

int Session::TimeoutMs() const {
  const uint64_t now = ReadMonotonic();
  const uint64_t next = std::min(next_look_ns_, next_clock_ns_);
  if (const int callers = rendezvous_->TimeoutMs(now); callers >= 0) return callers;
  return next <= now ? 0 : static_cast<int>((next - now) / 1'000'000 + 1);
}

void Session::AppendWatched(std::vector<pollfd>* fds) const {
  fds->push_back({drain_->activity_fd(), POLLIN, 0});
  if (ReadMonotonic() >= busy_until_ns_) targets_->AppendWatched(fds);
}

void Session::TakeIntroduction(Introduction introduction) {
  if (introduction.notice.has_value()) return TakeInert(*introduction.notice, introduction.pid);
  Target* const target = targets_->Add(std::move(introduction), nonce_);
  if (target == nullptr) return;
  if (triggers_disarmed_) {
    __atomic_store_n(&TriggersOf(target->mapped->segment.header)->families, 0u, __ATOMIC_SEQ_CST);
  }
  SetControl(target);
  SetSampling(target);
  targets_->UpdateProcesses(target, ReadMonotonic());
}

// Records that a library stays inert, and its reason.
void Session::TakeInert(const InertNotice& notice, pid_t pid) {
  if (inert_recorded_ == kMaxInert) return;
  ++inert_recorded_;
  // The process continues its start; its executable can be read only while it lives.
  const std::string executable = LinkText(absl::StrCat("/proc/", pid, "/exe"));
  InertFact fact{};
  fact.ticks = Now();
  fact.pid = pid;
  fact.inner_pid = notice.pid;
  fact.reason = notice.reason;
  fact.error = notice.error;
  std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
  payload += executable;
  drain_->Append(FrameType::kInert, 0, payload.data(), payload.size());
}

void Session::TakeClockPair() {
  const ClockFact pair = ReadClockPair(clock_);
  drain_->Append(FrameType::kClock, 0, &pair, sizeof(pair));
}

void Session::SetControl(Target* target) {
  SegmentHeader* const header = target->mapped->segment.header;
  __atomic_store_n(&header->torch_all, windows_.any_asked_for() ? 1u : 0u, __ATOMIC_SEQ_CST);
  __atomic_store_n(&header->gpu_windows, windows_.gpu_windows(), __ATOMIC_SEQ_CST);
  const uint32_t families = windows_.ArmedFamilies();
  // A range that begins in the program arms the segment itself: the launcher must not disarm it before it has read that
  // border. A segment whose control word changes all the time is left as it is after kTries.
  constexpr int kTries = 1000;
  uint32_t control = __atomic_load_n(&header->control, __ATOMIC_SEQ_CST);
  for (int i = 0; i < kTries; ++i) {
    // A border that was already read may not have its window yet: the window of the previous range is closed first.
    const bool is_begun = config_.trigger != TriggerKind::kNone && !triggers_disarmed_ &&
                          (triggers_.is_open() || ReportedBorders(*TriggersOf(header)) != target->borders_seen);
    const uint32_t wanted = (control & ~uint32_t{kFamilyAll}) | (is_begun ? config_.families : families);
    if (__atomic_compare_exchange_n(&header->control, &control, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      break;
  }
  RequestGpuFlush(*target->mapped);
}

void Session::SetSampling(Target* target) {
  SegmentHeader* const header = target->mapped->segment.header;
  const Sampling& sampling = governor_->sampling();
  __atomic_store_n(&header->sample_stack_bytes, sampling.stack_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&header->malloc_interval, sampling.interval, __ATOMIC_RELAXED);
}

void Session::AdaptSampling(uint64_t now_ns) {
  const SpoolWriter& spool = drain_->spool();
  if (!governor_->Update(now_ns, spool.sample_bytes(), spool.drained_bytes())) return;
  for (const auto& target : targets_->targets()) SetSampling(target.get());
  const SamplingFact fact{Now(), governor_->sampling().interval, governor_->sampling().stack_bytes, 0};
  drain_->Append(FrameType::kSampling, 0, &fact, sizeof(fact));
}

void Session::ReadTriggers() {
  const uint64_t patience = TicksOf(kTriggerPatienceNs);
  for (const auto& target : targets_->targets()) {
    const uint32_t segment = target->mapped->number;
    const Triggers& triggers = *TriggersOf(target->mapped->segment.header);
    const uint32_t reported = ReportedBorders(triggers);
    const uint64_t now = Now();
    triggers_.Read(segment, triggers, reported, &target->borders_seen, now > patience ? now - patience : 0, now);
    triggers_.Forget(
        segment, [&](uint32_t serial) { return target->Has(serial); }, now);
    // Resets a segment that armed itself for a border that was lost, or without reporting one.
    SegmentHeader* const header = target->mapped->segment.header;
    const uint32_t control = __atomic_load_n(&header->control, __ATOMIC_RELAXED);
    if ((triggers_disarmed_ || !triggers_.is_open()) && (control & kFamilyAll) != windows_.ArmedFamilies() &&
        ReportedBorders(triggers) == target->borders_seen) {
      SetControl(target.get());
    }
  }
}

std::vector<TriggerChange> Session::TakeTriggers() {
  if (config_.trigger == TriggerKind::kNone) return {};
  return triggers_.Take();
}

void Session::DisarmTriggers() {
  triggers_disarmed_ = true;
  for (const auto& target : targets_->targets()) {
    __atomic_store_n(&TriggersOf(target->mapped->segment.header)->families, 0u, __ATOMIC_SEQ_CST);
    SetControl(target.get());
  }
}

void Session::SetDrainInterval() {
  const bool may_record = armed() || config_.trigger != TriggerKind::kNone;
  drain_->SetIdleInterval(may_record ? kIdleDrainMs : kDisarmedDrainMs, may_record);
  if (sampler_ != nullptr) sampler_->SetArmed(armed());
  if (native_sampler_ != nullptr) native_sampler_->SetArmed(armed());
}

void Session::ArmAgain(uint32_t before) {
  SetDrainInterval();
  if (windows_.ArmedFamilies() == before) return;
  for (const auto& target : targets_->targets()) SetControl(target.get());
}

void Session::WriteWindow(uint32_t number, WindowEvent event, uint64_t ticks, uint32_t length_ms, uint32_t families) {
  const WindowFact fact{ticks, number, event, config_.families & families, length_ms};
  drain_->Append(FrameType::kWindow, 0, &fact, sizeof(fact));
}

void Session::SetRetention() {
  // The last records of a window may be drained up to kLateNs late on a busy machine.
  drain_->SetRetention(windows_.RetentionNow(TicksOf(kLateNs)));
}

uint64_t Session::OpenWindow(uint32_t number, uint32_t families, uint64_t from_ticks) {
  // The wall clock may have been set since the last clock pair.
  if (number != 0 && from_ticks == 0) TakeClockPair();
  const uint64_t ticks = from_ticks != 0 ? from_ticks : Now();
  if (number == 0) {
    run_open_ticks_ = ticks;
    run_open_ns_ = ReadMonotonic();
  }
  windows_.Keep(number, ticks);
  SetRetention();
  WriteWindow(number, WindowEvent::kOpened, ticks, number == 0 ? static_cast<uint32_t>(config_.last_ns / 1'000'000) : 0,
              families);
  const uint32_t before = windows_.ArmedFamilies();
  windows_.Open(number, families);
  OpenGpuWindow(number, families);
  ArmAgain(before);
  return ticks;
}

void Session::OpenGpuWindow(uint32_t number, uint32_t families) {
  if (windows_.OpenForGpus(number, families)) SetGpuWindows(targets_->targets(), windows_.gpu_windows());
}

uint64_t Session::OpenAskedWindow(uint32_t number, uint32_t families) {
  constexpr int kPatienceMs = 50;
  windows_.AskFor(number);
  SetAllTorchOperations(targets_->targets(), true);
  // If annotations are not armed yet, no operation is recorded before this window opens: no need to wait.
  if ((windows_.ArmedFamilies() & kFamilyAnnotation) != 0) WaitForAllTorchOperations(targets_->targets(), kPatienceMs);
  OpenGpuWindow(number, families);
  if ((families & kFamilyGpu) != 0) WaitForLimitedGpus(targets_->targets(), kPatienceMs);
  return OpenWindow(number, families);
}

uint64_t Session::CloseWindow(uint32_t number, uint64_t at_ticks) {
  // Receives waiting callers before the window closes: an inert notice gets the time at which it is read.
  if (at_ticks == 0) rendezvous_->Receive();
  const uint64_t ticks = at_ticks != 0 ? at_ticks : Now();
  const uint32_t before = windows_.ArmedFamilies();
  const bool was_asked_for = windows_.is_asked_for(number), was_for_gpus = windows_.is_open_for_gpus(number);
  windows_.Close(number);
  if (was_asked_for) SetAllTorchOperations(targets_->targets(), windows_.any_asked_for());
  if (was_for_gpus) SetGpuWindows(targets_->targets(), windows_.gpu_windows());
  ArmAgain(before);
  WriteWindow(number, WindowEvent::kClosed, ticks);
  TakeClockPair();
  return ticks;
}

void Session::AddWindow(uint32_t number, uint64_t from_ticks, uint64_t to_ticks) {
  windows_.KeepPast(number, from_ticks);
  SetRetention();
  WriteWindow(number, WindowEvent::kOpened, from_ticks);
  WriteWindow(number, WindowEvent::kClosed, to_ticks);
}

void Session::SplitRun(uint64_t start_to, uint64_t end_ns, bool add_start) {
  // The range ends at `start_to`: later records must stay droppable.
  if (add_start) windows_.KeepRange(kStartWindow, {run_open_ticks_, start_to, true});
  windows_.SplitRun(TicksOf(end_ns));
  SetRetention();
  if (add_start) {
    WriteWindow(kStartWindow, WindowEvent::kOpened, run_open_ticks_);
    WriteWindow(kStartWindow, WindowEvent::kClosed, start_to);
  }
  WriteWindow(kEndWindow, WindowEvent::kOpened, start_to, static_cast<uint32_t>(end_ns / 1'000'000));
  WriteWindow(0, WindowEvent::kReplaced, start_to);
}

uint64_t Session::TicksInRun(uint64_t ns) const {
  const uint64_t passed_ns = ReadMonotonic() - run_open_ns_;
  if (passed_ns == 0) return run_open_ticks_;
  const double rate = static_cast<double>(Now() - run_open_ticks_) / static_cast<double>(passed_ns);
  return run_open_ticks_ + static_cast<uint64_t>(static_cast<double>(ns) * rate);
}

void Session::NarrowRun(uint64_t from_ticks, uint64_t to_ticks) {
  const uint32_t before = windows_.ArmedFamilies();
  windows_.NarrowRun(from_ticks);
  SetRetention();
  WriteWindow(0, WindowEvent::kOpened, from_ticks);
  ArmAgain(before);
  WriteWindow(0, WindowEvent::kClosed, to_ticks);
  TakeClockPair();
}

void Session::Published(uint32_t number, bool ok) {
  if (ok) WriteWindow(number, WindowEvent::kPublished, Now());
  windows_.Published(number, ok);
  SetRetention();
}

SpoolExtent Session::ExtentOf(uint32_t number) const {
  SpoolExtent extent;
  if (const auto range = windows_.RangeOf(number)) extent = drain_->spool().ExtentOf(range->from, range->to);
  extent.main_bytes = sizeof(SpoolHeader) + drain_->spool().main_bytes();
  return extent;
}

bool Session::Flush(int limit_ms, bool rotate) {
  // Device work is recorded after it has finished: the flush delivers the records that the window still lacks.
  if (armed() || rotate) FlushGpus(targets_->targets(), std::min(limit_ms, kGpuFlushMs));
  TakeClockPair();
  const uint64_t now = ReadMonotonic();
  for (const auto& target : targets_->targets()) {
    targets_->UpdateProcesses(target.get(), now);
    // Reads the maps once per segment, so that stacks through libraries loaded since can be resolved.
    if (!target->dead && target->maps_read == 0) targets_->ReadMaps(target.get());
  }
  const std::chrono::milliseconds patience(std::min(limit_ms, kSamplerFlushMs));
  if (sampler_ != nullptr) sampler_->Flush(patience);
  if (native_sampler_ != nullptr) native_sampler_->Flush(patience);
  if (cores_ != nullptr) cores_->Flush(std::chrono::milliseconds(std::min(limit_ms, kCoreFlushMs)));
  const bool flushed = drain_->Flush(limit_ms, rotate);
  if (rotate) {
    windows_.Flushed(Now());
    SetRetention();
  }
  return flushed;
}

std::string Session::SpoolError() const {
  const int error = drain_->spool().write_error();
  if (error != 0) return strerror(error);
  return drain_->spool().full() ? "it reached --spool-limit" : "the disk was too slow";
}

void Session::LookForProcesses() {
  for (const auto& target : targets_->targets()) targets_->UpdateProcesses(target.get(), ReadMonotonic());
}

void Session::ReleaseTargets() {
  if (!closed_ || hangs_) return;
  targets_->Clear();
  drain_->ReleaseSegments();
}

// Where nothing was sampled for long, stacks are missing, and the split of the time is less sure.
void Session::NoteStalls() {
  const auto stalled = sampler_ == nullptr ? std::chrono::milliseconds(0) : sampler_->Stalled();
  if (stalled < std::chrono::seconds(1)) return;
  // Into the spool alone: the end of the run prints it with the other notes.
  const std::string note =
      absl::StrCat("tbprof had no CPU for ", HumanSeconds(std::chrono::duration<double>(stalled).count()),
                   ", or was stopped: nothing was sampled then");
  drain_->Append(FrameType::kNote, 0, note.data(), note.size());
}

bool Session::Close(const EndFact& end, int patience_ms) {
  if (closed_) return !hangs_;
  closed_ = true;
  windows_.EndSession();
  rendezvous_->ReceiveLast();
  for (const auto& target : targets_->targets()) {
    SegmentHeader* const header = target->mapped->segment.header;
    __atomic_store_n(&TriggersOf(header)->families, 0u, __ATOMIC_SEQ_CST);
    __atomic_store_n(&header->control, 0u, __ATOMIC_SEQ_CST);
  }
  targets_->StopSampling();
  NoteStalls();
  sampler_.reset();
  native_sampler_.reset();
  Flush(patience_ms);
  // Core files that are not read by now are skipped.
  targets_->StopReadingCores();
  cores_.reset();
  for (std::string& note : notes_) drain_->Append(FrameType::kNote, 0, note.data(), note.size());
  drain_->Append(FrameType::kEnd, 0, &end, sizeof(end));
  hangs_ = !drain_->Stop(patience_ms);
  return !hangs_;
}

}  // namespace tbprof
