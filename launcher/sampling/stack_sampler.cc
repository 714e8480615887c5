// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/stack_sampler.h"

#include <pthread.h>

#include <algorithm>
#include <optional>

#include "launcher/base/start_thread.h"
#include "launcher/sampling/process_sampler.h"

namespace tbprof {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// With half of the interval to each side, samples fall on any moment of a loop that takes one interval equally often.
constexpr double kSpread = 0.5;
constexpr milliseconds kLongestPause(200);  // while no process runs Python: ends of processes must be detected

microseconds IntervalOf(uint32_t rate) { return microseconds(1'000'000 / std::clamp<uint32_t>(rate, 1, 100'000)); }

}  // namespace

StackSampler::StackSampler(const SamplerOptions& options, EmitFrame emit)
    : options_(options),
      emit_(std::move(emit)),
      governor_(IntervalOf(options.rate), options.max_cpu_share),
      intervals_(kSpread) {
  started_ = StartThread(&thread_, [this] { Run(); });
}

StackSampler::~StackSampler() {
  commands_.Stop();
  if (thread_.joinable()) thread_.join();
}

void StackSampler::Apply(const SamplerCommands::Command& command) {
  using Command = SamplerCommands::Command;
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
        governor_.Restart(next_tick_);
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
  const Time now = Clock::now();
  for (const SampledProcess& process : young_.TakeGrown(now)) {
    processes_.push_back(std::make_unique<ProcessSampler>(process, options_.clock, emit_));
    next_tick_ = std::min(next_tick_, now);
  }
}

void StackSampler::Run() {
  pthread_setname_np(pthread_self(), "tbprof-python");
  for (;;) {
    const bool has_processes = !processes_.empty();
    std::optional<Time> until;
    if (armed_ && (has_processes || !young_.empty())) until = young_.NextWake(has_processes, next_tick_);
    const SamplerCommands::Batch batch = commands_.Wait(until);
    for (const SamplerCommands::Command& command : batch.commands) Apply(command);
    TakeGrown();
    if (armed_ && !batch.stop && Clock::now() >= next_tick_) Tick();
    if (batch.flush || batch.stop) {
      for (const auto& process : processes_) process->Emit();
    }
    commands_.Done(batch);
    if (batch.stop) return;
  }
}

void StackSampler::Tick() {
  const Time now = Clock::now();
  const auto interval = std::chrono::duration_cast<microseconds>(governor_.interval());
  for (const auto& process : processes_) {
    process->Sample(now, interval);
    if (process->ended()) process->Forget();
  }
  std::erase_if(processes_, [](const auto& process) { return process->ended(); });
  governor_.Govern(now);
  Time due = now + kLongestPause;
  for (const auto& process : processes_) due = std::min(due, process->Due(now));
  // Missed ticks are skipped: several samples at one moment would all be equal.
  const Time next = next_tick_ + intervals_.Next(governor_.interval());
  const Time nearest = Clock::now() + std::chrono::duration_cast<Clock::duration>(governor_.interval() * (1 - kSpread));
  next_tick_ = next > Clock::now() ? std::max(next, due) : std::max(nearest, due);
}

}  // namespace tbprof
