// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/process_sampler.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/sampling/emit_python.h"
#include "launcher/sampling/emit_rows.h"
#include "launcher/sampling/read_denial.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxOpenSchedules = 128;  // descriptors per process; those of further threads are opened each time
constexpr size_t kMaxPending = 1024;
// Without Python, a process has frames of its memory alone: one holds some seconds.
constexpr size_t kMaxResident = 16;
constexpr milliseconds kEmitInterval(250);
constexpr milliseconds kStatusInterval(1000);
// Somebody may move a running job to other CPUs, or change its quota.
constexpr milliseconds kLimitsInterval(2000);
constexpr milliseconds kMostLimitsInterval(8000);  // of one whose limits do not change
// Between looks at threads that have not run in the window: at its start, and later.
constexpr milliseconds kBlockedInterval(50), kMostBlockedInterval(200), kOftenBlocked(1000);
constexpr milliseconds kMaxLookupDelay(5000);
constexpr milliseconds kMaxNameDelay(30'000);
constexpr milliseconds kRetryIdentity(50);
// The kernel updates the CPU time of a running thread at its ticks: every 10 ms at CONFIG_HZ=100.
constexpr milliseconds kSurelyIdle(20);

// The distance of the kernel's ticks.
std::chrono::nanoseconds KernelTick() {
  timespec tick = {};
  clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
  return std::chrono::seconds(tick.tv_sec) + std::chrono::nanoseconds(tick.tv_nsec);
}
constexpr uint32_t kMaxFailedLists = 50;

}  // namespace

ProcessSampler::ProcessSampler(const SampledProcess& process, const SamplerOptions& options, const EmitFrame& emit)
    : process_(process),
      pidfd_(process.pidfd),
      clock_(options.clock),
      emit_(emit),
      read_(ProcessMemory(process.pid)),
      ids_(process.pid, read_),
      resident_(process.pid),
      limits_(process.pid) {
  status_.process_serial = process.serial;
  if (options.all_blocked) all_blocked_.emplace(process.pid, BlockedThreads::Scope::kAll);
  if (options.blocked_before) blocked_before_.emplace(process.pid, BlockedThreads::Scope::kFirst);
}

bool ProcessSampler::FindRuntime(Time now) {
  if (now < next_lookup_) return false;
  runtime_ = FindPythonRuntime(process_.pid, read_);
  next_lookup_ = now + lookup_delay_;
  lookup_delay_ = std::min(lookup_delay_ * 2, kMaxLookupDelay);
  if (!runtime_.found) return false;
  status_.minor = runtime_.minor;
  if (runtime_.state != kPythonSampled) {
    Refuse(runtime_.state, runtime_.reason);
    return false;
  }
  reader_.emplace(runtime_.layout, runtime_.address, read_);
  gil_.emplace(runtime_.layout, runtime_.address, read_);
  names_.emplace(runtime_.layout, read_);
  failed_lists_ = 0;
  initialised_ = false;
  return true;
}

void ProcessSampler::Refuse(PythonState state, const std::string& reason) {
  for (auto& [address, thread] : threads_) FinishUsage(&thread);
  Emit();
  refused_ = true;
  reader_.reset();
  threads_.clear();
  runtime_.reason = reason;
  status_.state = state;
  EmitStatus({});
}

void ProcessSampler::HandleListError(Time now) {
  const int error = reader_->error();
  if (error == ESRCH) {
    ended_ = true;
  } else if (IsReadDenied(error)) {
    Refuse(kPythonNoPermission, DenialReason(process_.pid, error, initialised_));
  } else if (++failed_lists_ >= kMaxFailedLists) {
    if (error == 0 && initialised_) {
      Refuse(kPythonLayoutMismatch, "Python stacks: not sampled any more, the interpreter's threads cannot be read");
      return;
    }
    // The process has started another program, or has unloaded the interpreter.
    for (auto& [address, thread] : threads_) FinishUsage(&thread);
    Emit();
    reader_.reset();
    threads_.clear();
    next_lookup_ = now + lookup_delay_;
  }
}

bool ProcessSampler::HasEnded() const {
  if (!pidfd_.valid()) return false;
  pollfd end = {pidfd_.get(), POLLIN, 0};
  return poll(&end, 1, 0) > 0;
}

void ProcessSampler::TakeResident(Time now, bool whole) {
  resident_.Take(now, ReadTicks(clock_), whole, &resident_rows_);
  if (resident_rows_.size() >= kMaxResident) EmitResident();
}

void ProcessSampler::EmitResident() {
  EmitRows<ThreadUsageFact>(emit_, FrameType::kResidentMemory, process_, std::exchange(resident_rows_, {}));
}

void ProcessSampler::Sample(Time now, std::chrono::microseconds interval) {
  ended_ = ended_ || HasEnded();
  if (ended_) return;
  if (now >= resident_.next()) TakeResident(now, /*whole=*/false);
  if (all_blocked_) TakeAllBlocked(now);
  if (blocked_before_ && now >= next_before_ && !blocked_before_->IsDone()) TakeBlockedBefore(now);
  if (refused_) return;
  status_.interval_us = static_cast<uint32_t>(interval.count());
  if (!limits_read_) EmitLimits(/*whole=*/true);
  if (!reader_ && !FindRuntime(now)) return;
  if (!reader_->ListThreads()) {
    HandleListError(now);
    return;
  }
  failed_lists_ = 0;
  for (auto& [address, thread] : threads_) thread.seen = false;
  std::vector<int32_t> tids;
  for (size_t i = 0; i < reader_->threads().size(); ++i) {
    Thread& thread = threads_[reader_->threads()[i].address];
    thread.seen = true;
    thread.order = i;
    if (thread.tid != 0) tids.push_back(thread.tid);
  }
  std::sort(tids.begin(), tids.end());
  shared_ = std::adjacent_find(tids.begin(), tids.end()) != tids.end();
  SampleThreads(now);
  for (auto at = threads_.begin(); at != threads_.end();) {
    if (at->second.seen) {
      ++at;
      continue;
    }
    CloseThread(&at->second);
    at = threads_.erase(at);
  }
  if (reader_->self_check() == PythonReader::SelfCheck::kFailed) {
    Refuse(kPythonLayoutMismatch, "Python stacks: not sampled, this CPython 3." + std::to_string(runtime_.minor) +
                                      " is laid out differently from what is known");
    return;
  }
  if (!threads_.empty()) {
    initialised_ = true;
    status_.state = kPythonSampled;
  }
  if (now >= next_emit_ ||
      pending_.size() + collecting_.size() + usage_.size() + blocked_.size() + holders_.size() >= kMaxPending) {
    Emit();
    next_emit_ = now + kEmitInterval;
  }
}

void ProcessSampler::SampleThreads(Time now) {
  gil_->Read(reader_->interpreters());
  auto& states = reader_->threads();
  // First the thread that holds the GIL, if it is known: it does not hold it for long.
  const auto first = [&](const PythonReader::Thread& state) {
    return !shared_ && gil_->IsHeldBy(state.address) && threads_[state.address].tid != 0;
  };
  const auto holder = std::ranges::find_if(states, first);
  if (holder != states.end()) SampleThread(&*holder, &threads_[holder->address], now);
  // From the oldest to the newest state: the newest one may still have the ids of the thread that created it.
  for (size_t i = states.size(); i-- > 0;) {
    if (states.begin() + static_cast<ptrdiff_t>(i) == holder) continue;
    SampleThread(&states[i], &threads_[states[i].address], now);
  }
}

bool ProcessSampler::Identify(const PythonReader::Thread& state, Thread* thread, Time now) {
  const bool same = thread->thread_id == state.thread_id && thread->native_id == state.native_id;
  if (thread->tid != 0 && same) return true;
  // The ids of a state change: the starting thread creates the state of a new thread with its own ids, and a new state
  // may reuse the address of a freed one.
  if (thread->tid != 0) {
    CloseThread(thread);
    const size_t order = thread->order;
    *thread = {};
    thread->seen = true;
    thread->order = order;
  }
  if (same && now < thread->retry) return false;
  thread->thread_id = state.thread_id;
  thread->native_id = state.native_id;
  thread->retry = now + kRetryIdentity;
  const auto ids = ids_.Resolve(state);
  if (!ids) return false;
  thread->tid = ids->inner;
  thread->outer_tid = ids->outer;
  if (state.main && !all_blocked_) {
    thread->syscall.Reset(open(SyscallPath(process_.pid, ids->outer).c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (threads_.size() <= kMaxOpenSchedules) {
    thread->schedstat.Reset(open(SchedulePath(process_.pid, ids->outer).c_str(), O_RDONLY | O_CLOEXEC));
  }
  return true;
}

void ProcessSampler::TakeUsage(const PythonReader::Thread& state, Thread* thread, uint64_t ticks, Time now) {
  if (!thread->schedule || thread->second) return;
  if (thread->usage.WantsFaults(*thread->schedule, now, state.main ? kFaultsOfMain : kFaultsOfOthers)) {
    thread->usage.SetFaults(ReadFaults(process_.pid, thread->outer_tid));
  }
  thread->usage.Take(*thread->schedule, thread->tid, ticks, now, &usage_);
}

// Records where the thread is blocked now, even if it ran since the previous sample.
void ProcessSampler::TakeBlocked(Thread* thread, uint64_t ticks) {
  if (!thread->syscall.valid() || thread->second) return;
  std::optional<Blocked> blocked = ReadBlocked(process_.pid, thread->syscall.get());
  if (blocked && blocked->call != 0 && (thread->is_stopped || ++thread->looks % kSamplesPerState == 0)) {
    thread->is_stopped = IsStopped(thread->syscall.get());
    if (thread->is_stopped) blocked = Blocked{.kind = BlockedIn::kStopped};
  }
  thread->blocked.Take(blocked, thread->tid, ticks, &blocked_);
}

// The main thread of Python is looked at in each sample.
void ProcessSampler::TakeBlockedBefore(Time now) {
  if (next_before_ == Time{}) before_since_ = now;
  next_before_ = now + (now - before_since_ < kOftenBlocked ? kBlockedInterval : kMostBlockedInterval);
  if (!reader_ && !refused_) FindRuntime(now);
  const auto is_gil = [this](uint64_t futex) { return gil_ && gil_->IsFutexOf(futex); };
  blocked_before_->Sample(now, ReadTicks(clock_), is_gil, {&blocked_, nullptr, reader_ ? process_.pid : 0});
  if (reader_ || (now < next_emit_ && blocked_.size() < kMaxPending)) return;
  Emit();
  next_emit_ = now + kEmitInterval;
}

void ProcessSampler::TakeAllBlocked(Time now) {
  const auto is_gil = [this](uint64_t futex) { return gil_ && gil_->IsFutexOf(futex); };
  all_blocked_->Sample(now, ReadTicks(clock_), is_gil, {&blocked_, &usage_});
  if (reader_ || (now < next_emit_ && blocked_.size() + usage_.size() < kMaxPending)) return;
  Emit();
  next_emit_ = now + kEmitInterval;
}

// Nobody waits for the GIL of a thread that is alone.
void ProcessSampler::TakeHolder(uint64_t state, const Thread& thread, uint32_t node, uint64_t ticks) {
  if (threads_.size() < 2 || !gil_->IsHeldBy(state) || !gil_->IsStillHeldBy(state)) return;
  holders_.push_back({ticks, thread.tid, node});
}

void ProcessSampler::SampleThread(PythonReader::Thread* state, Thread* thread, Time now) {
  if (!Identify(*state, thread, now)) {
    ++status_.unreadable;
    return;
  }
  // Read before the stack: if the thread runs in between, the next sample reads its stack again. Without a descriptor,
  // or if the kernel does not count, every sample reads the stack.
  const std::optional<ScheduleReading> schedule = thread->schedstat.valid()
                                                      ? ReadSchedule(thread->schedstat.get())
                                                      : ReadScheduleOnce(process_.pid, thread->outer_tid);
  const bool changed = schedule && thread->schedule ? *schedule != *thread->schedule : !schedule;
  static const std::chrono::nanoseconds tick = KernelTick();
  const bool on_cpu = changed || (thread->on_cpu && now - thread->ran < tick);
  thread->on_cpu = on_cpu;
  if (!schedule || !thread->schedule || changed) thread->ran = now;
  thread->schedule = schedule;
  const bool collecting = on_cpu && gil_->IsCollecting(state->interpreter, state->address);
  const uint64_t ticks = ReadTicks(clock_);
  TakeUsage(*state, thread, ticks, now);
  TakeBlocked(thread, ticks);
  if (thread->read && now - thread->ran >= kSurelyIdle) {
    if (thread->second) return;
    ++status_.samples;
    Add(thread, thread->run.node, {false, false, ticks});
    TakeHolder(state->address, *thread, thread->run.node, ticks);
    return;
  }
  uint32_t node = 0;
  thread->read = false;
  switch (reader_->ReadStack(state, &frames_)) {
    case PythonReader::Result::kRead:
      if (!Identify(*state, thread, now) || !FindNode(frames_, &node)) {
        ++status_.unreadable;
        return;
      }
      thread->second = (node == 0 || shared_) && IsSecondState(*thread, node);
      if (!thread->second) {
        ++status_.samples;
        Add(thread, node, {on_cpu, collecting, ticks});
        TakeHolder(state->address, *thread, node, ticks);
      } else {
        CloseRun(thread);
        thread->run.node = node;
      }
      thread->read = true;
      if (now >= thread->next_name) ReadName(thread, now);
      return;
    case PythonReader::Result::kTorn:
      ++status_.torn;
      return;
    case PythonReader::Result::kUnreadable:
      ++status_.unreadable;
      return;
  }
}

// A thread has a state in each interpreter that it has entered, and the state of a thread that it is about to start. It
// runs the newest state that has frames: the subinterpreter's, while the states of the calling interpreter wait.
bool ProcessSampler::IsSecondState(const Thread& thread, uint32_t node) const {
  return std::any_of(threads_.begin(), threads_.end(), [&](const auto& entry) {
    const Thread& other = entry.second;
    if (!other.seen || other.tid != thread.tid || other.order == thread.order) return false;
    if (node == 0) return other.run.node != 0 || other.order > thread.order;
    return other.run.node != 0 && other.order < thread.order;
  });
}

bool ProcessSampler::FindNode(const std::vector<PythonReader::Frame>& frames, uint32_t* node) {
  *node = 0;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    *node = trie_.Find(*node, frame->code, frame->instruction);
    if (*node == 0) return false;
  }
  return true;
}

void ProcessSampler::Add(Thread* thread, uint32_t node, const Sampled& sampled) {
  PythonSample& run = thread->run;
  // The times of all samples on the CPU are known: native samples are matched with them.
  const bool ends = run.node != node || thread->collecting != sampled.collecting || (sampled.on_cpu && run.samples > 1);
  if (run.samples != 0 && ends) CloseRun(thread);
  if (run.samples == 0) run = {sampled.ticks, sampled.ticks, thread->tid, node, 0, 0};
  thread->collecting = sampled.collecting;
  run.last_ticks = sampled.ticks;
  ++run.samples;
  if (sampled.on_cpu) ++run.on_cpu;
}

// Needs the stack that was just read. A program may name a thread at any time, but usually does so at its start.
void ProcessSampler::ReadName(Thread* thread, Time now) {
  thread->next_name = now + thread->name_delay;
  thread->name_delay = std::min(thread->name_delay * 2, kMaxNameDelay);
  const uint64_t frame = reader_->ThreadStartFrame(frames_);
  std::string name = frame == 0 ? "" : names_->Read(frame);
  if (name.empty() || name == thread->name) return;
  EmitPythonName(emit_, process_, thread->tid, name);
  thread->name = std::move(name);
}

// Keeps `run.node`: the next samples may have the same stack.
void ProcessSampler::CloseRun(Thread* thread) {
  if (thread->run.samples == 0) return;
  (thread->collecting ? collecting_ : pending_).push_back(thread->run);
  thread->run.samples = 0;
}

void ProcessSampler::CloseThread(Thread* thread) {
  CloseRun(thread);
  thread->blocked.Finish(&blocked_);
  FinishUsage(thread);
}

void ProcessSampler::FinishUsage(Thread* thread) {
  if (thread->second) return;
  const auto last = thread->schedstat.valid() ? ReadSchedule(thread->schedstat.get())
                                              : ReadScheduleOnce(process_.pid, thread->outer_tid);
  if (last && thread->schedule) {
    thread->usage.Take(*last, thread->tid, ReadTicks(clock_), std::chrono::steady_clock::now(), &usage_);
  }
  thread->usage.Finish(&usage_);
}

void ProcessSampler::Emit() {
  for (auto& [address, thread] : threads_) {
    CloseRun(&thread);
    thread.blocked.Finish(&blocked_);
  }
  if (all_blocked_) all_blocked_->Cut(&blocked_);
  if (reader_) EmitPythonCodes(emit_, process_, runtime_.minor, reader_->TakeNewCodes());
  EmitRows<PythonStacksFact>(emit_, FrameType::kPythonStacks, process_, trie_.TakeNew());
  EmitRows<PythonSamplesFact>(emit_, FrameType::kPythonSamples, process_, std::exchange(pending_, {}));
  EmitRows<PythonSamplesFact>(emit_, FrameType::kPythonCollecting, process_, std::exchange(collecting_, {}));
  EmitRows<ThreadUsageFact>(emit_, FrameType::kThreadUsage, process_, std::exchange(usage_, {}));
  EmitRows<ThreadUsageFact>(emit_, FrameType::kBlockedCalls, process_, std::exchange(blocked_, {}));
  EmitRows<ThreadUsageFact>(emit_, FrameType::kGilHolders, process_, std::exchange(holders_, {}));
  EmitResident();
  const Time now = std::chrono::steady_clock::now();
  if (limits_read_ && (now >= next_limits_ || limits_.has_quota())) EmitLimits(/*whole=*/now >= next_limits_);
  if (status_.state != 0 && (now >= next_status_ || status_.state != emitted_status_.state ||
                             status_.interval_us != emitted_status_.interval_us)) {
    EmitStatus(now);
  }
}

void ProcessSampler::EmitStatus(Time now) {
  next_status_ = now + kStatusInterval;
  PythonStatusFact same = emitted_status_;
  same.ticks = status_.ticks;
  if (std::memcmp(&same, &status_, sizeof(same)) == 0) return;
  status_.ticks = ReadTicks(clock_);
  std::string payload(reinterpret_cast<const char*>(&status_), sizeof(status_));
  payload += runtime_.reason;
  emit_(FrameType::kPythonStatus, process_.segment, payload.data(), payload.size());
  emitted_status_ = status_;
}

void ProcessSampler::EmitLimits(bool whole) {
  limits_read_ = true;
  CpuLimitsFact fact = {};
  const bool changed = whole ? limits_.Read(&fact) : limits_.ReadThrottled(&fact);
  if (whole) {
    limits_interval_ = changed ? kLimitsInterval : std::min(2 * limits_interval_, kMostLimitsInterval);
    next_limits_ = std::chrono::steady_clock::now() + limits_interval_;
  }
  if (!changed) return;
  fact.ticks = ReadTicks(clock_);
  fact.process_serial = process_.serial;
  emit_(FrameType::kCpuLimits, process_.segment, &fact, sizeof(fact));
}

void ProcessSampler::Forget() {
  ended_ = ended_ || HasEnded();
  if (!ended_) TakeResident(std::chrono::steady_clock::now(), /*whole=*/true);
  for (auto& [address, thread] : threads_) FinishUsage(&thread);
  if (all_blocked_) all_blocked_->Finish({&blocked_, &usage_});
  if (blocked_before_) blocked_before_->Finish({&blocked_, nullptr});
  next_before_ = {};
  Emit();
  if (limits_read_) EmitLimits(/*whole=*/!ended_);
  limits_read_ = false;
  if (status_.state != 0) EmitStatus({});
  for (auto& [address, thread] : threads_) {
    thread.read = false;
    thread.schedule.reset();
  }
}

}  // namespace tbprof
