// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/native_process.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/base/proc_files.h"
#include "launcher/sampling/emit_rows.h"
#include "launcher/sampling/thread_ids.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxFrames = 256;
constexpr size_t kMaxPending = 1024;
constexpr int kMaxListings = 4;
// After so many samples a thread gets another period. A change takes two system calls, and interrupts the thread's CPU.
constexpr uint32_t kSamplesPerPeriod = 8;
// 4 MB of buffers; the buffers of further threads hold 3 samples. A user may lock 8 MB, and half a MB per CPU.
constexpr uint32_t kMaxLargeEvents = 32;
constexpr milliseconds kEmitInterval(250);
constexpr milliseconds kStatusInterval(1000);
// The kernel reports new threads. A listing finds the threads whose report was lost.
constexpr milliseconds kListingInterval(1000);
constexpr milliseconds kUsageInterval(50);
// Beyond so many threads, of the further ones only the main thread's usage is read.
constexpr size_t kMaxThreadsWithUsage = 128;
constexpr milliseconds kSwitchInterval(100);

NativeState StateOf(int error) { return error == EACCES || error == EPERM ? kNativeNoPermission : kNativeNoEvents; }

bool IsRefusal(int error) {
  return error == EACCES || error == EPERM || error == ENOSYS || error == ENOENT || error == ENODEV ||
         error == EOPNOTSUPP || error == EINVAL;
}

}  // namespace

NativeTarget::NativeTarget(const SampledProcess& process, NativeShared* shared, const EmitFrame& emit)
    : process_(process), pidfd_(process.pidfd), shared_(*shared), emit_(emit), modules_(process.pid, &shared->files) {
  status_.process_serial = process.serial;
  InnermostId("/proc/" + std::to_string(process.pid) + "/status", &nested_);
}

void NativeTarget::Start(uint64_t period_ns) {
  if (running_ || ended_ || replaced_ || refused_) return;
  running_ = true;
  period_ns_ = period_ns;
  status_.state = kNativeSampled;
  status_.interval_us = static_cast<uint32_t>(period_ns / 1000);
  OpenAll();
  // Reads the modules now: /proc/PID/maps is empty when a short program has ended.
  if (!threads_.empty()) modules_.Read();
}

void NativeTarget::Refuse(int error) {
  refused_ = true;
  status_.state = StateOf(error);
  status_.error = error;
  const PerfRefusal refusal = ExplainPerfRefusal(error, PerfEventParanoid());
  reason_ = StrCat("Native stacks: not sampled, ", refusal.cause);
  if (!refusal.remedy.empty()) StrAppend(&reason_, " (", refusal.remedy, ")");
  EmitStatus({});
}

bool NativeTarget::OpenThread(int32_t tid) {
  if (refused_ || threads_.contains(tid)) return true;
  int error = 0;
  std::unique_ptr<PerfEvent> event;
  if (threads_.size() >= kMaxThreads || shared_.events >= shared_.max_events) {
    error = EMFILE;
  } else {
    const bool small = shared_.events >= kMaxLargeEvents;
    event = PerfEvent::Open({.tid = tid, .period_ns = DrawPeriod(small), .small = small}, &error);
  }
  if (event == nullptr) {
    if (error == ESRCH) return true;  // the thread has ended
    if (threads_.empty() && status_.samples == 0 && IsRefusal(error)) {
      Refuse(error);
      return true;
    }
    left_out_error_ = error;
    return false;
  }
  ++shared_.events;
  Thread& thread = threads_[tid];
  thread.event = std::move(event);
  thread.inner = tid;
  if (nested_) {
    bool ignored = false;
    const std::string task = StrCat("/proc/", process_.pid, "/task/", tid, "/status");
    thread.inner = InnermostId(task, &ignored);
  }
  return true;
}

// False: no new thread.
bool NativeTarget::ListThreads() {
  const size_t before = threads_.size();
  uint64_t left_out = 0;
  for (const int32_t tid : TasksOf(process_.pid)) {
    if (!OpenThread(tid)) ++left_out;
  }
  threads_left_out_ = std::max(threads_left_out_, left_out);
  return threads_.size() > before;
}

void NativeTarget::OpenAll() {
  for (int i = 0; i < kMaxListings && !refused_ && ListThreads(); ++i) {
  }
}

void NativeTarget::CloseEvents() {
  shared_.events -= static_cast<uint32_t>(threads_.size());
  threads_.clear();
}

void NativeTarget::Take(Time now) {
  if (!running_ || ended_ || refused_) return;
  // Polls before the events are read, so that the records up to the process's end are read.
  pollfd end = {pidfd_.get(), POLLIN, 0};
  const bool ends = pidfd_.valid() && poll(&end, 1, 0) > 0;
  made_.clear();
  for (auto at = threads_.begin(); at != threads_.end();) {
    Thread& thread = at->second;
    thread.event->Read([&](const PerfRecord& record) { TakeRecord(&thread, record); });
    if (!thread.exited) {
      if (thread.samples_of_period >= kSamplesPerPeriod) ChangePeriod(&thread);
      ++at;
      continue;
    }
    thread.usage.Finish(&usage_);
    at = threads_.erase(at);
    --shared_.events;
  }
  if (ends || replaced_) {
    ended_ = ends;
    Stop();
    return;
  }
  TakeUsage(now);
  bool left_out = false;
  for (const int32_t tid : made_) left_out |= !OpenThread(tid);
  // New threads may have created further threads before their event was opened.
  if (!made_.empty() || left_out || now >= next_listing_) {
    OpenAll();
    next_listing_ = now + kListingInterval;
  }
  if (now >= next_emit_ || pending_.size() + usage_.size() >= kMaxPending) {
    Emit();
    next_emit_ = now + kEmitInterval;
  }
}

void NativeTarget::TakeRecord(Thread* thread, const PerfRecord& record) {
  switch (record.kind) {
    case PerfRecord::kSample:
      if (!replaced_ && thread->inner > 0) TakeSample(thread, record);
      return;
    case PerfRecord::kLost:
      status_.lost += record.lost;
      return;
    case PerfRecord::kNewThread:
      if (record.pid == process_.pid) made_.push_back(record.tid);
      return;
    case PerfRecord::kExec:
      replaced_ = true;
      return;
    case PerfRecord::kMapped:
      if (!replaced_ && record.path.starts_with("/")) {
        modules_.Add({record.address, record.address + record.length, record.offset, record.inode, record.path});
      }
      return;
    case PerfRecord::kExit:
      thread->exited = true;
      return;
    case PerfRecord::kOther:
      return;
  }
}

void NativeTarget::TakeUsage(Time now) {
  if (now < next_usage_) return;
  next_usage_ = now + kUsageInterval;
  for (auto& [tid, thread] : threads_) {
    if (thread.ran || thread.paused || tid == process_.pid) ReadUsage(tid, &thread, now);
  }
}

void NativeTarget::ReadUsage(int32_t tid, Thread* thread, Time now) {
  thread->ran = false;
  if (thread->inner <= 0) return;
  if (!thread->schedstat.valid() && (threads_.size() <= kMaxThreadsWithUsage || tid == process_.pid)) {
    thread->schedstat.Reset(open(SchedulePath(process_.pid, tid).c_str(), O_RDONLY | O_CLOEXEC));
  }
  const auto reading = ReadSchedule(thread->schedstat.get());
  // A paused event does not report the thread's end.
  if (!reading && thread->paused) thread->exited = true;
  if (!reading) return;
  WatchSwitches(reading->slices, thread, now);
  if (thread->usage.WantsFaults(*reading, now, tid == process_.pid ? kFaultsOfMain : kFaultsOfOthers)) {
    thread->usage.SetFaults(ReadFaults(process_.pid, tid));
  }
  thread->usage.Take(*reading, thread->inner, ReadTicks(shared_.clock_kind), now, &usage_);
}

void NativeTarget::WatchSwitches(uint64_t slices, Thread* thread, Time now) {
  const std::chrono::duration<double> passed = now - thread->slices_at;
  if (passed < kSwitchInterval) return;
  const double rate = static_cast<double>(slices - thread->slices) / passed.count();
  const bool is_first = thread->slices_at == Time{};
  thread->slices = slices;
  thread->slices_at = now;
  if (is_first || (thread->paused ? rate * 2 > shared_.max_switches : rate <= shared_.max_switches)) return;
  thread->paused = !thread->paused;
  thread->paused ? thread->event->Pause() : thread->event->Resume();
  if (!std::exchange(thread->was_paused, true)) ++paused_threads_;
  status_.flags |= kNativePaused;
}

void NativeTarget::TakeSample(Thread* thread, const PerfRecord& record) {
  bool complete = false;
  std::vector<uint64_t> addresses = shared_.unwinder.Unwind(modules_.map(), record.snapshot, kMaxFrames, &complete);
  if (!complete && modules_.map().Find(addresses.back() - (addresses.size() > 1 ? 1 : 0)) == nullptr &&
      modules_.ReadForUnknown(std::chrono::steady_clock::now())) {
    addresses = shared_.unwinder.Unwind(modules_.map(), record.snapshot, kMaxFrames, &complete);
  }
  ++status_.samples;
  if (!complete) ++status_.cut;
  // A sample of a 32-bit program has no registers.
  const bool is_known = record.snapshot.register_count > 0;
  NativeSample sample = {};
  sample.ticks = shared_.clock.TicksAt(record.time_ns);
  sample.tid = thread->inner;
  thread->ran = true;
  sample.node = is_known ? FindNativeNode(addresses, complete, &trie_) : 0;
  sample.period_us =
      static_cast<uint32_t>((thread->event->period_ns() + std::exchange(thread->unsampled_ns, 0)) / 1000);
  ++thread->samples_of_period;
  pending_.push_back(sample);
}

void NativeTarget::SetPeriod(uint64_t period_ns) {
  if (!running_ || period_ns == period_ns_) return;
  period_ns_ = period_ns;
  status_.interval_us = static_cast<uint32_t>(period_ns / 1000);
  for (auto& [tid, thread] : threads_) ChangePeriod(&thread);
}

// A small buffer holds the samples of two mean periods and little more, so that its periods are not shorter.
uint64_t NativeTarget::DrawPeriod(bool is_small) {
  const uint64_t mean_ns = is_small ? period_ns_ / 3 * 4 : period_ns_;
  return static_cast<uint64_t>(shared_.periods.Next(std::chrono::nanoseconds(mean_ns)).count());
}

void NativeTarget::ChangePeriod(Thread* thread) {
  const auto before_ns = static_cast<double>(thread->event->period_ns());
  const auto change = thread->event->SetPeriod(DrawPeriod(thread->event->is_small()));
  if (!change) return;
  // The kernel takes no samples of its own code: of the part that was cut, the next sample stands for the share of
  // user code.
  const uint64_t whole_ns = change->cpu_ns - change->cut_ns;
  const double sampled_ns = before_ns * thread->samples_of_period;
  const double share = whole_ns == 0 ? 1 : std::min(sampled_ns / static_cast<double>(whole_ns), 1.0);
  thread->unsampled_ns += static_cast<uint64_t>(share * static_cast<double>(change->cut_ns));
  thread->samples_of_period = 0;
}

void NativeTarget::Emit() {
  EmitRows<NativeStacksFact>(emit_, FrameType::kNativeStacks, process_, TakeNewNativeNodes(&trie_));
  EmitRows<NativeSamplesFact>(emit_, FrameType::kNativeSamples, process_, std::exchange(pending_, {}));
  EmitRows<ThreadUsageFact>(emit_, FrameType::kThreadUsage, process_, std::exchange(usage_, {}));
  const Time now = std::chrono::steady_clock::now();
  if (status_.state != 0 && (now >= next_status_ || status_.interval_us != emitted_status_.interval_us)) {
    EmitStatus(now);
  }
}

std::string NativeTarget::ReasonOfMissing() const {
  const auto threads = [](uint64_t count) { return StrCat(count, count == 1 ? " thread" : " threads"); };
  if (threads_left_out_ > 0) {
    const PerfRefusal refusal = ExplainPerfRefusal(left_out_error_, PerfEventParanoid());
    return StrCat("Native stacks: ", threads(threads_left_out_), " not sampled, ", refusal.cause,
                  refusal.remedy.empty() ? "" : StrCat(" (", refusal.remedy, ")"));
  }
  if (paused_threads_ == 0) return "";
  return StrCat("Native stacks: ", threads(paused_threads_), " not sampled while ",
                paused_threads_ == 1 ? "it switches" : "they switch", " over ", shared_.max_switches,
                " times a second: it would slow ", paused_threads_ == 1 ? "it" : "them", " down");
}

void NativeTarget::EmitStatus(Time now) {
  next_status_ = now + kStatusInterval;
  if (!refused_) reason_ = ReasonOfMissing();
  NativeStatusFact same = emitted_status_;
  same.ticks = status_.ticks;
  if (std::memcmp(&same, &status_, sizeof(same)) == 0 && reason_ == emitted_reason_) return;
  status_.ticks = ReadTicks(shared_.clock_kind);
  std::string payload(reinterpret_cast<const char*>(&status_), sizeof(status_));
  payload += reason_;
  emit_(FrameType::kNativeStatus, process_.segment, payload.data(), payload.size());
  emitted_status_ = status_;
  emitted_reason_ = reason_;
}

void NativeTarget::Stop() {
  if (running_ && !ended_ && !replaced_ && !refused_) {
    for (auto& [tid, thread] : threads_) {
      Thread* const its = &thread;
      thread.event->Read([&](const PerfRecord& record) { TakeRecord(its, record); });
    }
  }
  for (auto& [tid, thread] : threads_) {
    if (thread.schedstat.valid()) ReadUsage(tid, &thread, std::chrono::steady_clock::now());
    thread.usage.Finish(&usage_);
  }
  running_ = false;
  CloseEvents();
  Emit();
  if (status_.state != 0) EmitStatus({});
}

}  // namespace tbprof
