// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/sampler_commands.h"

#include <fcntl.h>

#include <utility>

namespace tbprof {

void SamplerCommands::Post(const Command& command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(command);
  }
  changed_.notify_all();
}

void SamplerCommands::AddProcess(const SampledProcess& process) {
  Command command = {Command::kAdd, process};
  if (process.pidfd >= 0) command.process.pidfd = fcntl(process.pidfd, F_DUPFD_CLOEXEC, 3);
  Post(command);
}

void SamplerCommands::RemoveProcess(uint32_t segment, uint32_t serial) {
  Post({Command::kRemove, {.segment = segment, .serial = serial}});
}

void SamplerCommands::SetArmed(bool armed) { Post({armed ? Command::kArm : Command::kDisarm, {}}); }

bool SamplerCommands::Flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++flushes_wanted_;
  changed_.notify_all();
  return changed_.wait_for(lock, timeout, [&] { return flushes_done_ >= wanted; });
}

void SamplerCommands::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

SamplerCommands::Batch SamplerCommands::Wait(std::optional<Time> until) {
  std::unique_lock lock(mutex_);
  const auto pending = [this] { return stop_ || !commands_.empty() || flushes_done_ != flushes_wanted_; };
  if (until.has_value()) {
    changed_.wait_until(lock, *until, pending);
  } else {
    changed_.wait(lock, pending);
  }
  Batch batch;
  batch.commands = std::exchange(commands_, {});
  batch.flushes = flushes_wanted_;
  batch.flush = flushes_wanted_ != flushes_done_;
  batch.stop = stop_;
  return batch;
}

void SamplerCommands::Done(const Batch& batch) {
  if (!batch.flush) return;
  {
    const std::lock_guard lock(mutex_);
    flushes_done_ = batch.flushes;
  }
  changed_.notify_all();
}

}  // namespace tbprof
