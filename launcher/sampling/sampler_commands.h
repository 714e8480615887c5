// SPDX-License-Identifier: Apache-2.0
//
// What other threads want of a sampler's thread.
//
//   commands.AddProcess(process);  commands.SetArmed(true);  commands.Flush(1s);   // any thread
//
//   for (;;) {                                                                     // the sampler's thread
//     const SamplerCommands::Batch batch = commands.Wait(next_tick);
//     ...
//     commands.Done(batch);
//     if (batch.stop) return;
//   }
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_SAMPLING_SAMPLER_COMMANDS_H_
#define TBPROF_LAUNCHER_SAMPLING_SAMPLER_COMMANDS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "launcher/sampling/sampled_process.h"

namespace tbprof {

class SamplerCommands {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Command {
    enum Kind { kAdd, kRemove, kArm, kDisarm } kind;
    SampledProcess process;
  };
  struct Batch {
    std::vector<Command> commands;
    uint64_t flushes = 0;  // number of the last Flush that this batch answers
    bool flush = false, stop = false;
  };

  // Duplicates the pidfd: whoever applies the command owns the copy.
  void AddProcess(const SampledProcess& process);
  void RemoveProcess(uint32_t segment, uint32_t serial);
  void SetArmed(bool armed);
  // Waits until a batch with this flush is done. False: not within `timeout`.
  bool Flush(std::chrono::milliseconds timeout);
  void Stop();

  // Waits for a command, a flush or the stop; with `until`, at most until then.
  Batch Wait(std::optional<Time> until);
  void Done(const Batch& batch);

 private:
  void Post(const Command& command);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  uint64_t flushes_wanted_ = 0, flushes_done_ = 0;
  bool stop_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_SAMPLER_COMMANDS_H_
