// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/native_sampler.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/base/start_thread.h"
#include "launcher/sampling/native_process.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

// New threads are found at the next tick, but each wake costs as much as a sample. A thread's buffer holds 15 samples,
// or 3 if the user may lock only little memory.
constexpr milliseconds kLongestTick(20);
constexpr milliseconds kShortestTick(1);
constexpr int kPeriodsPerTick = 2;
constexpr int kNice = 5;
constexpr uint32_t kMaxEvents = 2048;  // 77 MB of buffers

nanoseconds PeriodOf(uint32_t rate) { return nanoseconds(1'000'000'000 / std::clamp<uint32_t>(rate, 1, 10'000)); }

// A quarter of the descriptor limit: segments need descriptors, too.
uint32_t MaxEvents() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 256;
  return static_cast<uint32_t>(std::min<rlim_t>(descriptors.rlim_cur / 4, kMaxEvents));
}

}  // namespace

NativeSampler::NativeSampler(const SamplerOptions& options, EmitFrame emit)
    : options_(options), emit_(std::move(emit)), governor_(PeriodOf(options.rate), options.max_cpu_share) {
  started_ = StartThread(&thread_, [this] { Run(); });
}

NativeSampler::~NativeSampler() {
  commands_.Stop();
  if (thread_.joinable()) thread_.join();
}

void NativeSampler::Apply(const SamplerCommands::Command& command) {
  using Command = SamplerCommands::Command;
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
        governor_.Restart(next_tick_);
        for (const auto& process : processes_) process->Start(PeriodNs());
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
  for (const SampledProcess& process : young_.TakeGrown(Clock::now())) {
    processes_.push_back(std::make_unique<NativeTarget>(process, shared_.get(), emit_));
    if (armed_) processes_.back()->Start(PeriodNs());
  }
}

void NativeSampler::Run() {
  pthread_setname_np(pthread_self(), "tbprof-native");
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  shared_ = std::make_unique<NativeShared>(options_.clock);
  shared_->max_events = MaxEvents();
  shared_->max_switches = options_.max_switches;
  for (bool stop = false; !stop;) {
    const bool has_processes = !processes_.empty();
    std::optional<Time> until;
    if (armed_ && (has_processes || !young_.empty())) until = young_.NextWake(has_processes, next_tick_);
    const SamplerCommands::Batch batch = commands_.Wait(until);
    for (const SamplerCommands::Command& command : batch.commands) Apply(command);
    TakeGrown();
    const bool ends = batch.flush || batch.stop;
    if (armed_ && !processes_.empty() && (ends || Clock::now() >= next_tick_)) Tick();
    if (ends) {
      for (const auto& process : processes_) batch.stop ? process->Stop() : process->Emit();
    }
    commands_.Done(batch);
    stop = batch.stop;
  }
  processes_.clear();
  shared_.reset();
}

void NativeSampler::Tick() {
  shared_->clock.Update();
  const Time now = Clock::now();
  for (const auto& process : processes_) process->Take(now);
  std::erase_if(processes_, [](const auto& process) { return process->ended(); });
  if (governor_.Govern(now)) {
    for (const auto& process : processes_) process->SetPeriod(PeriodNs());
  }
  const auto tick = std::clamp<nanoseconds>(governor_.interval() * kPeriodsPerTick, kShortestTick, kLongestTick);
  next_tick_ = std::max(next_tick_ + std::chrono::duration_cast<Clock::duration>(tick), Clock::now());
}

}  // namespace tbprof
