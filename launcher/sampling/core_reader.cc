// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/core_reader.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/base/proc_files.h"
#include "launcher/base/start_thread.h"
#include "launcher/sampling/core_stacks.h"
#include "launcher/sampling/emit_core.h"
#include "writer/spool/spool.h"

namespace tbprof {
namespace {

constexpr size_t kMaxUncertain = 64;  // uncertain jobs are dropped beyond it: many children may end with unknown status

struct OutFrame {
  FrameType type;
  uint32_t segment;
  std::string payload;
};

CoreFact FactOf(const CoreReader::Job& job) {
  CoreFact fact = {};
  fact.ticks = job.ticks;
  fact.process_serial = job.process.serial;
  fact.signal = job.signal;
  return fact;
}

std::vector<OutFrame> ReadJob(const CoreReader::Job& job) {
  std::vector<OutFrame> frames;
  const auto keep = [&](FrameType type, uint32_t segment, const void* payload, size_t size) {
    frames.push_back({type, segment, std::string(static_cast<const char*>(payload), size)});
  };
  CoreFact fact = FactOf(job);
  if (job.search.pattern.kind() != CorePattern::kFile) {
    if (job.search.pattern.kind() == CorePattern::kNone) return frames;
    fact.state = kCorePiped;
    EmitCore(keep, job.process, fact, job.search.pattern.program(), "", {});
    return frames;
  }
  FoundCore found = FindCore(job.search, std::chrono::steady_clock::now() + CoreReader::kTime);
  if (found.core == nullptr) {
    fact.state = kCoreUnread;
    if (job.is_certain) EmitCore(keep, job.process, fact, "", found.reason, {});
    return frames;
  }
  if (job.signal == 0 && found.core->signal() > 0) {
    fact.signal = found.core->signal();
    ExitFact exit = {};
    exit.ticks = job.ticks;
    exit.process_serial = job.process.serial;
    exit.exit_code = -1;
    exit.exit_signal = fact.signal;
    keep(FrameType::kExit, job.process.segment, &exit, sizeof(exit));
  }
  fact.state = kCoreRead;
  if (const std::optional<uint64_t> address = found.core->fault_address()) {
    fact.fault_address = *address;
    fact.flags |= kCoreFaultAddress;
  }
  const CoreStacks stacks = ReadCoreStacks(found.core.get());
  EmitCore(keep, job.process, fact, found.path, stacks.shortfall, stacks);
  return frames;
}

}  // namespace

struct CoreReader::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  Emit emit;  // empty: the CoreReader was destroyed
  bool running = false;
};

CorePattern ReadCorePattern() {
  int error = 0;
  const std::string text = ReadProcFile("/proc/sys/kernel/core_pattern", &error);
  const std::string uses_pid = ReadProcFile("/proc/sys/kernel/core_uses_pid", &error);
  return ParseCorePattern(text, !uses_pid.empty() && uses_pid[0] != '0');
}

CoreReader::CoreReader(CorePattern pattern, Emit emit)
    : pattern_(std::move(pattern)), state_(std::make_shared<State>()) {
  state_->emit = std::move(emit);
}

CoreReader::~CoreReader() {
  const std::lock_guard lock(state_->mutex);
  state_->emit = nullptr;
  state_->jobs.clear();
}

void CoreReader::Add(Job job) {
  job.search.pattern = pattern_;
  const std::lock_guard lock(state_->mutex);
  if (!job.is_certain && state_->jobs.size() >= kMaxUncertain) return;
  state_->jobs.push_back(std::move(job));
  if (std::exchange(state_->running, true)) return;
  std::thread thread;
  if (StartThread(&thread, [state = state_] { Run(state); }).ok()) {
    thread.detach();
  } else {
    for (const Job& unread : state_->jobs) {
      if (!unread.is_certain || !state_->emit) continue;
      CoreFact fact = FactOf(unread);
      fact.state = kCoreUnread;
      EmitCore(state_->emit, unread.process, fact, "", "no thread could be started to read it", {});
    }
    state_->jobs.clear();
    state_->running = false;
    state_->changed.notify_all();
  }
}

bool CoreReader::Flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, timeout, [&] { return !state_->running; });
}

void CoreReader::Run(std::shared_ptr<State> state) {
  pthread_setname_np(pthread_self(), "tbprof-core");
  std::unique_lock lock(state->mutex);
  while (!state->jobs.empty()) {
    const Job job = std::move(state->jobs.front());
    state->jobs.pop_front();
    lock.unlock();
    const std::vector<OutFrame> frames = ReadJob(job);
    lock.lock();
    // The lock is held for all frames of a core file, so that all of them or none are emitted.
    for (const OutFrame& frame : frames) {
      if (state->emit) state->emit(frame.type, frame.segment, frame.payload.data(), frame.payload.size());
    }
  }
  state->running = false;
  state->changed.notify_all();
}

}  // namespace tbprof
