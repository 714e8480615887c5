// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/stack_sampler.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/base/start_thread.h"
#include "launcher/sampling/process_sampler.h"

namespace tbprof {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGoverningInterval(1);
constexpr microseconds kSlowest(1'000'000);
constexpr milliseconds kLongestPause(200);  // while no process runs Python: ends of processes must be detected

int64_t ThreadCpuNs() {
  timespec used = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

}  // namespace

StackSampler::StackSampler(const Options& options, Emit emit)
    : options_(options), emit_(std::move(emit)), interval_(1'000'000 / std::clamp<uint32_t>(options.rate, 1, 100'000)) {
  started_ = StartThread(&thread_, [this] { Run(); });
}

StackSampler::~StackSampler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StackSampler::Post(const Command& command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(command);
  }
  changed_.notify_all();
}

void StackSampler::AddProcess(const Process& process) {
  Command command = {Command::kAdd, process};
  if (process.pidfd >= 0) command.process.pidfd = fcntl(process.pidfd, F_DUPFD_CLOEXEC, 3);
  Post(command);
}

void StackSampler::RemoveProcess(uint32_t segment, uint32_t serial) {
  Post({Command::kRemove, {.segment = segment, .serial = serial}});
}

void StackSampler::SetArmed(bool armed) { Post({armed ? Command::kArm : Command::kDisarm, {}}); }

bool StackSampler::Flush(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++flushes_wanted_;
  changed_.notify_all();
  return changed_.wait_for(lock, timeout, [&] { return flushes_done_ >= wanted; });
}

void StackSampler::Apply(const Command& command) {
  const auto is_it = [&](const std::unique_ptr<ProcessSampler>& sampler) {
    return sampler->process().segment == command.process.segment && sampler->process().serial == command.process.serial;
  };
  switch (command.kind) {
    case Command::kAdd:
      young_.Add(command.process, Clock::now());
      return;
    case Command::kRemove:
      young_.Remove(command.process.segment, command.process.serial);
      for (const auto& process : processes_) {
        if (is_it(process)) process->Forget();
      }
      std::erase_if(processes_, is_it);
      return;
    case Command::kArm:
      if (!armed_) {
        next_tick_ = Clock::now();
        next_governing_ = next_tick_ + kGoverningInterval;
        cpu_at_governing_ns_ = ThreadCpuNs();
      }
      armed_ = true;
      return;
    case Command::kDisarm:
      armed_ = false;
      for (const auto& process : processes_) process->Forget();
      return;
  }
}

void StackSampler::TakeGrown() {
  const Clock::time_point now = Clock::now();
  for (const Process& process : young_.TakeGrown(now)) {
    processes_.push_back(std::make_unique<ProcessSampler>(process, options_.clock, emit_));
    next_tick_ = std::min(next_tick_, now);
  }
}

void StackSampler::Run() {
  pthread_setname_np(pthread_self(), "tbprof-python");
  std::unique_lock lock(mutex_);
  while (true) {
    const auto pending = [this] { return stop_ || !commands_.empty() || flushes_done_ != flushes_wanted_; };
    const bool has_processes = !processes_.empty();
    if (armed_ && (has_processes || !young_.empty())) {
      changed_.wait_until(lock, young_.NextWake(has_processes, next_tick_), pending);
    } else {
      changed_.wait(lock, pending);
    }
    const std::vector<Command> commands = std::exchange(commands_, {});
    const uint64_t flushes = flushes_wanted_;
    const bool flush = flushes != flushes_done_, stop = stop_;
    lock.unlock();
    for (const Command& command : commands) Apply(command);
    TakeGrown();
    if (armed_ && !stop && Clock::now() >= next_tick_) Tick();
    if (flush || stop) {
      for (const auto& process : processes_) process->Emit();
    }
    lock.lock();
    if (flush) {
      flushes_done_ = flushes;
      changed_.notify_all();
    }
    if (stop) return;
  }
}

void StackSampler::Tick() {
  const Clock::time_point now = Clock::now();
  for (const auto& process : processes_) {
    process->Sample(now, interval_);
    if (process->ended()) process->Forget();
  }
  std::erase_if(processes_, [](const auto& process) { return process->ended(); });
  if (now >= next_governing_) GovernRate();
  Clock::time_point due = now + kLongestPause;
  for (const auto& process : processes_) due = std::min(due, process->Due(now));
  // Missed ticks are skipped: several samples at one moment would all be equal.
  next_tick_ = std::max({next_tick_ + interval_, Clock::now(), due});
}

// Halves the rate while sampling uses more than max_cpu_share, and doubles it below 40 % of that share.
void StackSampler::GovernRate() {
  const int64_t cpu = ThreadCpuNs();
  const auto now = Clock::now();
  const double elapsed = std::chrono::duration<double, std::nano>(now - next_governing_ + kGoverningInterval).count();
  const double share =
      static_cast<double>(cpu - cpu_at_governing_ns_) / elapsed / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const microseconds wanted(1'000'000 / std::clamp<uint32_t>(options_.rate, 1, 100'000));
  if (share > options_.max_cpu_share) {
    interval_ = std::min(interval_ * 2, std::max(kSlowest, wanted));
  } else if (share < options_.max_cpu_share * 0.4) {
    interval_ = std::max(interval_ / 2, wanted);
  }
  cpu_at_governing_ns_ = cpu;
  next_governing_ = now + kGoverningInterval;
}

}  // namespace tbprof
