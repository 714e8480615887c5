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
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "launcher/sampling/young_processes.h"
#include "wire/clock.h"
#include "writer/spool/spool.h"

namespace tbprof {

class ProcessSampler;

class StackSampler {
 public:
  using Emit = std::function<void(FrameType type, uint32_t segment, const void* payload, size_t size)>;
  struct Options {
    ClockKind clock = ClockKind::kMonotonic;
    uint32_t rate = 100;          // samples a second of each thread
    double max_cpu_share = 0.01;  // of all CPUs of the machine
  };
  using Process = SampledProcess;

  StackSampler(const Options& options, Emit emit);
  // Emits all pending samples.
  ~StackSampler();
  StackSampler(const StackSampler&) = delete;
  StackSampler& operator=(const StackSampler&) = delete;

  void AddProcess(const Process& process);
  void RemoveProcess(uint32_t segment, uint32_t serial);
  void SetArmed(bool armed);
  // Not OK: there is no thread, and nothing is sampled.
  const absl::Status& started() const { return started_; }
  // False if the sampler's thread did not answer in time.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  struct Command {
    enum Kind { kAdd, kRemove, kArm, kDisarm } kind;
    Process process;
  };

  void Post(const Command& command);
  void Run();
  void Apply(const Command& command);
  void TakeGrown();
  void Tick();
  void GovernRate();

  const Options options_;
  const Emit emit_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  uint64_t flushes_wanted_ = 0, flushes_done_ = 0;
  bool stop_ = false;

  // Used by the sampler's thread only.
  bool armed_ = false;
  std::chrono::microseconds interval_;
  std::chrono::steady_clock::time_point next_tick_, next_governing_;
  int64_t cpu_at_governing_ns_ = 0;
  YoungProcesses young_;
  std::vector<std::unique_ptr<ProcessSampler>> processes_;
  absl::Status started_;
  std::thread thread_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_
