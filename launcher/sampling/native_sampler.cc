// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/native_sampler.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/base/start_thread.h"
#include "launcher/sampling/native_process.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGoverningInterval(1);
constexpr uint64_t kSlowestNs = 1'000'000'000;
// New threads are found at the next tick, but each wake costs as much as a sample. A thread's buffer holds 15 samples,
// or 3 if the user may lock only little memory.
constexpr milliseconds kLongestTick(20);
constexpr milliseconds kShortestTick(1);
constexpr uint64_t kPeriodsPerTick = 2;
constexpr int kNice = 5;
constexpr uint32_t kMaxEvents = 2048;  // 77 MB of buffers

int64_t ThreadCpuNs() {
  timespec used = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

// 1 % longer than requested: exactly 100 Hz would alias with the kernel's tick and with work that the program does 100
// times a second.
uint64_t PeriodOf(uint32_t rate) {
  const uint64_t even = 1'000'000'000 / std::clamp<uint32_t>(rate, 1, 10'000);
  return even + even / 100;
}

// A quarter of the descriptor limit: segments need descriptors, too.
uint32_t MaxEvents() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 256;
  return static_cast<uint32_t>(std::min<rlim_t>(descriptors.rlim_cur / 4, kMaxEvents));
}

}  // namespace

NativeSampler::NativeSampler(const Options& options, Emit emit)
    : options_(options),
      emit_(std::move(emit)),
      wanted_period_ns_(PeriodOf(options.rate)),
      period_ns_(wanted_period_ns_) {
  started_ = StartThread(&thread_, [this] { Run(); });
}

NativeSampler::~NativeSampler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void NativeSampler::Post(const Command& command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(command);
  }
  changed_.notify_all();
}

void NativeSampler::AddProcess(const Process& process) {
  Command command = {Command::kAdd, process};
  if (process.pidfd >= 0) command.process.pidfd = fcntl(process.pidfd, F_DUPFD_CLOEXEC, 3);
  Post(command);
}

void NativeSampler::RemoveProcess(uint32_t segment, uint32_t serial) {
  Post({Command::kRemove, {.segment = segment, .serial = serial}});
}

void NativeSampler::SetArmed(bool armed) { Post({armed ? Command::kArm : Command::kDisarm, {}}); }

bool NativeSampler::Flush(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++flushes_wanted_;
  changed_.notify_all();
  return changed_.wait_for(lock, timeout, [&] { return flushes_done_ >= wanted; });
}

void NativeSampler::Apply(const Command& command) {
  const auto is_it = [&](const std::unique_ptr<NativeTarget>& process) {
    return process->process().segment == command.process.segment && process->process().serial == command.process.serial;
  };
  switch (command.kind) {
    case Command::kAdd:
      young_.Add(command.process, Clock::now());
      return;
    case Command::kRemove:
      young_.Remove(command.process.segment, command.process.serial);
      for (const auto& process : processes_) {
        if (is_it(process)) process->Stop();
      }
      std::erase_if(processes_, is_it);
      return;
    case Command::kArm:
      if (!armed_) {
        next_tick_ = Clock::now();
        governed_ = next_tick_;
        cpu_at_governing_ns_ = ThreadCpuNs();
        for (const auto& process : processes_) process->Start(period_ns_);
      }
      armed_ = true;
      return;
    case Command::kDisarm:
      armed_ = false;
      for (const auto& process : processes_) process->Stop();
      return;
  }
}

void NativeSampler::TakeGrown() {
  for (const Process& process : young_.TakeGrown(Clock::now())) {
    processes_.push_back(std::make_unique<NativeTarget>(process, shared_.get(), emit_));
    if (armed_) processes_.back()->Start(period_ns_);
  }
}

void NativeSampler::Run() {
  pthread_setname_np(pthread_self(), "tbprof-native");
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  shared_ = std::make_unique<NativeShared>(options_.clock);
  shared_->max_events = MaxEvents();
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
    if (armed_ && !processes_.empty() && (flush || stop || Clock::now() >= next_tick_)) Tick();
    if (flush || stop) {
      for (const auto& process : processes_) stop ? process->Stop() : process->Emit();
    }
    lock.lock();
    if (flush) {
      flushes_done_ = flushes;
      changed_.notify_all();
    }
    if (stop) break;
  }
  lock.unlock();
  processes_.clear();
  shared_.reset();
}

void NativeSampler::Tick() {
  shared_->clock.Update();
  const Time now = Clock::now();
  for (const auto& process : processes_) process->Take(now);
  std::erase_if(processes_, [](const auto& process) { return process->ended(); });
  if (now - governed_ >= kGoverningInterval) GovernRate(now);
  const nanoseconds periods(period_ns_ * kPeriodsPerTick);
  const auto tick = std::clamp<nanoseconds>(periods, kShortestTick, kLongestTick);
  next_tick_ = std::max(next_tick_ + std::chrono::duration_cast<Clock::duration>(tick), Clock::now());
}

// Halves the rate while sampling uses more than max_cpu_share, and doubles it below 40 % of that share.
void NativeSampler::GovernRate(Time now) {
  const int64_t cpu = ThreadCpuNs();
  const double elapsed = std::chrono::duration<double, std::nano>(now - governed_).count();
  const double share =
      static_cast<double>(cpu - cpu_at_governing_ns_) / elapsed / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  if (share > options_.max_cpu_share) {
    period_ns_ = std::min(period_ns_ * 2, std::max(kSlowestNs, wanted_period_ns_));
  } else if (share < options_.max_cpu_share * 0.4) {
    period_ns_ = std::max(period_ns_ / 2, wanted_period_ns_);
  }
  for (const auto& process : processes_) process->SetPeriod(period_ns_);
  cpu_at_governing_ns_ = cpu;
  governed_ = now;
}

}  // namespace tbprof
