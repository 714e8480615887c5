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
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "launcher/sampling/stack_sampler.h"

namespace tbprof {

class NativeTarget;
struct NativeShared;

class NativeSampler {
 public:
  using Options = StackSampler::Options;
  using Process = StackSampler::Process;
  using Emit = StackSampler::Emit;

  NativeSampler(const Options& options, Emit emit);
  // Emits all pending samples.
  ~NativeSampler();
  NativeSampler(const NativeSampler&) = delete;
  NativeSampler& operator=(const NativeSampler&) = delete;

  void AddProcess(const Process& process);
  void RemoveProcess(uint32_t segment, uint32_t serial);
  void SetArmed(bool armed);
  // Not OK: there is no thread, and nothing is sampled.
  const absl::Status& started() const { return started_; }
  // False if the sampler's thread did not answer in time.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Command {
    enum Kind { kAdd, kRemove, kArm, kDisarm } kind;
    Process process;
  };

  void Post(const Command& command);
  void Run();
  void Apply(const Command& command);
  void TakeGrown();
  void Tick();
  void GovernRate(Time now);

  const Options options_;
  const Emit emit_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  uint64_t flushes_wanted_ = 0, flushes_done_ = 0;
  bool stop_ = false;

  // Used by the sampler's thread only.
  bool armed_ = false;
  uint64_t wanted_period_ns_, period_ns_;
  Time next_tick_{}, governed_{};
  int64_t cpu_at_governing_ns_ = 0;
  std::unique_ptr<NativeShared> shared_;
  YoungProcesses young_;
  std::vector<std::unique_ptr<NativeTarget>> processes_;
  absl::Status started_;
  std::thread thread_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_
