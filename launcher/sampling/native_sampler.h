// SPDX-License-Identifier: Apache-2.0
//
// Samples the native stacks of all threads of the recorded processes while they use CPU, with the kernel's perf events.
// Runs in its own thread with low priority, and emits frames of the spool.
//
//   NativeSampler sampler({.clock = clock, .rate = 100}, emit);
//   sampler.AddProcess({segment, serial, pid, pidfd});
//   sampler.SetArmed(true);      // a window is open
//   ...
//   sampler.SetArmed(false);
//   sampler.Flush(1s);           // waits until all samples taken before were passed to `emit`
//
// If sampling uses more than `max_cpu_share` of the machine's CPU, the rate is lowered, and raised again later.
//
// Process: launcher. Any thread may call every function; none waits for a target, and Flush waits at most `timeout`.
// Only the sampler's thread calls `emit`.
#ifndef TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_
#define TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "launcher/sampling/rate_governor.h"
#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/sampler_commands.h"
#include "launcher/sampling/young_processes.h"

namespace tbprof {

class NativeTarget;
struct NativeShared;

class NativeSampler {
 public:
  NativeSampler(const SamplerOptions& options, EmitFrame emit);
  // Emits all pending samples.
  ~NativeSampler();
  NativeSampler(const NativeSampler&) = delete;
  NativeSampler& operator=(const NativeSampler&) = delete;

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
  uint64_t PeriodNs() const { return static_cast<uint64_t>(governor_.interval().count()); }

  const SamplerOptions options_;
  const EmitFrame emit_;
  SamplerCommands commands_;

  // Used by the sampler's thread only.
  bool armed_ = false;
  Time next_tick_{};
  RateGovernor governor_;
  std::unique_ptr<NativeShared> shared_;
  YoungProcesses young_;
  std::vector<std::unique_ptr<NativeTarget>> processes_;
  absl::Status started_;
  std::thread thread_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_
