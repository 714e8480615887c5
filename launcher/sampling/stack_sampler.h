// SPDX-License-Identifier: Apache-2.0
//
// Samples the Python stacks of all recorded processes. Runs in its own thread, and emits frames of the spool.
//
//   StackSampler sampler({.clock = clock, .rate = 100}, emit);
//   sampler.AddProcess({segment, serial, pid, pidfd});
//   sampler.SetArmed(true);      // a window is open
//   ...
//   sampler.SetArmed(false);
//   sampler.Flush(1s);           // waits until all samples taken before were passed to `emit`
//
// The stack of a thread that has not run since the last sample is not read again. If sampling uses more than
// `max_cpu_share` of the machine's CPU, the rate is lowered, and raised again later. Only the read of a page of the
// target may wait for the target.
//
// Process: launcher. Any thread may call every function; none waits for a target, and Flush waits at most `timeout`.
// Only the sampler's thread calls `emit`.
#ifndef TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_
#define TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "launcher/sampling/random_interval.h"
#include "launcher/sampling/rate_governor.h"
#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/sampler_commands.h"
#include "launcher/sampling/young_processes.h"

namespace tbprof {

class ProcessSampler;

class StackSampler {
 public:
  StackSampler(const SamplerOptions& options, EmitFrame emit);
  // Emits all pending samples.
  ~StackSampler();
  StackSampler(const StackSampler&) = delete;
  StackSampler& operator=(const StackSampler&) = delete;

  void AddProcess(const SampledProcess& process) { commands_.AddProcess(process); }
  void RemoveProcess(uint32_t segment, uint32_t serial) { commands_.RemoveProcess(segment, serial); }
  void SetArmed(bool armed) { commands_.SetArmed(armed); }
  // Not OK: there is no thread, and nothing is sampled.
  const absl::Status& started() const { return started_; }
  // False if the sampler's thread did not answer in time.
  bool Flush(std::chrono::milliseconds timeout) { return commands_.Flush(timeout); }

 private:
  using Time = SamplerCommands::Time;

  void Run();
  void Apply(const SamplerCommands::Command& command);
  void TakeGrown();
  void Tick();

  const SamplerOptions options_;
  const EmitFrame emit_;
  SamplerCommands commands_;

  // Used by the sampler's thread only.
  bool armed_ = false;
  Time next_tick_{};
  RateGovernor governor_;
  RandomInterval intervals_;
  YoungProcesses young_;
  std::vector<std::unique_ptr<ProcessSampler>> processes_;
  absl::Status started_;
  std::thread thread_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_
