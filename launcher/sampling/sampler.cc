// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/sampler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/base/start_thread.h"

namespace tbprof {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Sampler::Sampler(std::unique_ptr<SampledSet> set) : set_(std::move(set)) {
  started_ = StartThread(&thread_, [this] { Run(); });
}

Sampler::~Sampler() {
  commands_.Stop();
  if (thread_.joinable()) thread_.join();
}

void Sampler::Apply(const SamplerCommands::Command& command) {
  using Command = SamplerCommands::Command;
  switch (command.kind) {
    case Command::kAdd:
      young_.Add(command.process, Clock::now());
      return;
    case Command::kRemove:
      young_.Remove(command.process.segment, command.process.serial);
      set_->Remove(command.process.segment, command.process.serial);
      return;
    case Command::kArm:
      if (!armed_) {
        next_tick_ = Clock::now();
        set_->Arm(next_tick_);
      }
      armed_ = true;
      return;
    case Command::kDisarm:
      armed_ = false;
      set_->Disarm();
      return;
  }
}

void Sampler::TakeGrown() {
  const Time now = Clock::now();
  for (const SampledProcess& process : young_.TakeGrown(now)) {
    if (set_->Add(process)) next_tick_ = std::min(next_tick_, now);
  }
}

void Sampler::CountDelay(Clock::duration delay) {
  constexpr std::chrono::milliseconds kLeast(500);
  if (delay >= kLeast) stalled_ms_ += std::chrono::duration_cast<std::chrono::milliseconds>(delay).count();
}

void Sampler::Run() {
  set_->Begin();
  for (bool stop = false; !stop;) {
    const bool has_processes = !set_->empty();
    std::optional<Time> until;
    if (armed_ && (has_processes || !young_.empty())) until = young_.NextWake(has_processes, next_tick_);
    const Time before = Clock::now();
    const SamplerCommands::Batch batch = commands_.Wait(until);
    if (until.has_value()) CountDelay(Clock::now() - std::max(before, *until));
    for (const SamplerCommands::Command& command : batch.commands) Apply(command);
    TakeGrown();
    if (armed_ && !set_->empty() && !batch.stop && Clock::now() >= next_tick_) next_tick_ = set_->Tick(next_tick_);
    if (batch.flush) set_->Emit();
    if (batch.stop) set_->End();
    commands_.Done(batch);
    stop = batch.stop;
  }
}

}  // namespace tbprof
