// SPDX-License-Identifier: Apache-2.0
//
// The thread of a sampler: it takes the wishes of other threads, holds back processes that are too young, and samples
// while a window is open. What it samples is a SampledSet.
//
//   Sampler sampler(std::make_unique<PythonSet>(options, emit));
//   sampler.AddProcess({segment, serial, pid, pidfd});
//   sampler.SetArmed(true);      // a window is open
//   ...
//   sampler.SetArmed(false);
//   sampler.Flush(1s);           // waits until all samples taken before were emitted
//
// Process: launcher. Any thread may call every function of Sampler; none waits for a target, and Flush waits at most
// `timeout`.
#ifndef TBPROF_LAUNCHER_SAMPLING_SAMPLER_H_
#define TBPROF_LAUNCHER_SAMPLING_SAMPLER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/sampler_commands.h"
#include "launcher/sampling/young_processes.h"

namespace tbprof {

// The processes that one sampler samples. Only the sampler's thread calls these.
class SampledSet {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~SampledSet() = default;
  // First of all: the thread has just started.
  virtual void Begin() = 0;
  virtual bool empty() const = 0;
  // Takes over `process.pidfd`. Returns true to be ticked at once.
  virtual bool Add(const SampledProcess& process) = 0;
  virtual void Remove(uint32_t segment, uint32_t serial) = 0;
  // A window opens (it was closed before), or closes.
  virtual void Arm(Time now) = 0;
  virtual void Disarm() = 0;
  // Samples, or takes what was sampled since the last tick, which was due at `due`. Returns when the next one is.
  virtual Time Tick(Time due) = 0;
  // Emits all samples that were taken.
  virtual void Emit() = 0;
  // Emits them and gives all processes up: the thread ends.
  virtual void End() = 0;
};

class Sampler {
 public:
  explicit Sampler(std::unique_ptr<SampledSet> set);
  // Emits all pending samples.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void AddProcess(const SampledProcess& process) { commands_.AddProcess(process); }
  void RemoveProcess(uint32_t segment, uint32_t serial) { commands_.RemoveProcess(segment, serial); }
  void SetArmed(bool armed) { commands_.SetArmed(armed); }
  // Not OK: there is no thread, and nothing is sampled.
  const absl::Status& started() const { return started_; }
  // For how long in all the thread was due and did not run: there was no CPU for it, or tbprof was stopped. Delays
  // under half a second do not count.
  std::chrono::milliseconds Stalled() const { return std::chrono::milliseconds(stalled_ms_.load()); }
  // False if the sampler's thread did not answer in time.
  bool Flush(std::chrono::milliseconds timeout) { return commands_.Flush(timeout); }

 private:
  using Time = SampledSet::Time;

  void Run();
  void Apply(const SamplerCommands::Command& command);
  void TakeGrown();
  void CountDelay(std::chrono::steady_clock::duration delay);

  SamplerCommands commands_;

  // Used by the sampler's thread only.
  const std::unique_ptr<SampledSet> set_;
  bool armed_ = false;
  Time next_tick_{};
  YoungProcesses young_;
  absl::Status started_;
  std::atomic<int64_t> stalled_ms_ = 0;
  std::thread thread_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_SAMPLER_H_
