// SPDX-License-Identifier: Apache-2.0
//
// Samples one process: finds its interpreter, reads the stacks of its threads at each tick, and emits code objects,
// stacks, samples, the CPU usage of its threads, its memory, and status as frames of the spool. Each frame precedes the
// frames that refer to it.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_PROCESS_SAMPLER_H_
#define TBPROF_LAUNCHER_SAMPLING_PROCESS_SAMPLER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/sampling/blocked_in.h"
#include "launcher/sampling/blocked_threads.h"
#include "launcher/sampling/cpu_limits.h"
#include "launcher/sampling/python_gil.h"
#include "launcher/sampling/python_reader.h"
#include "launcher/sampling/python_runtime.h"
#include "launcher/sampling/resident_memory.h"
#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/stack_trie.h"
#include "launcher/sampling/thread_ids.h"
#include "launcher/sampling/thread_names.h"
#include "launcher/sampling/thread_usage.h"
#include "writer/base/scoped.h"

namespace tbprof {

class ProcessSampler {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ProcessSampler(const SampledProcess& process, const SamplerOptions& options, const EmitFrame& emit);

  // Takes one sample of each thread.
  void Sample(Time now, std::chrono::microseconds interval);
  // Emits all samples taken so far.
  void Emit();
  // Call when sampling stops: emits all data, and drops the readings that the next sample would be compared with.
  void Forget();
  bool ended() const { return ended_; }
  // The time from which on Sample has work to do.
  Time Due(Time now) const {
    if (reader_ || all_blocked_) return now;
    if (blocked_before_ && !blocked_before_->IsDone()) return std::min(next_before_, resident_.next());
    return refused_ ? resident_.next() : std::min(next_lookup_, resident_.next());
  }
  const SampledProcess& process() const { return process_; }

 private:
  struct Thread {
    bool seen = false;
    size_t order = 0;  // position in the reader's list, newest state first
    int32_t tid = 0, outer_tid = 0;
    uint64_t thread_id = 0, native_id = 0;  // of the state when `tid` was resolved
    ScopedFd schedstat, syscall;            // `syscall`: only of a main thread
    BlockedTrack blocked;
    uint32_t looks = 0;                       // samples in which it was in a call
    bool is_stopped = false;                  // in a call, by its state
    std::optional<ScheduleReading> schedule;  // read before the last sample
    UsageTrack usage;
    Time ran{};               // time of the last change of the schedule
    bool on_cpu = false;      // in the last sample
    Time retry{};             // `tid` is not resolved: time of the next attempt
    bool second = false;      // another state of a sampled thread: not sampled
    bool read = false;        // `run` has the stack of the last sample
    PythonSample run = {};    // samples == 0: no open run
    bool collecting = false;  // the thread collected garbage in `run`
    std::string name;         // threading.Thread.name, as last emitted
    Time next_name{};         // time of the next reading
    std::chrono::milliseconds name_delay{50};
  };

  bool HasEnded() const;
  void TakeResident(Time now, bool whole);
  void EmitResident();
  bool FindRuntime(Time now);
  void Refuse(PythonState state, const std::string& reason);
  void HandleListError(Time now);
  void SampleThreads(Time now);
  void SampleThread(PythonReader::Thread* state, Thread* thread, Time now);
  bool Identify(const PythonReader::Thread& state, Thread* thread, Time now);
  bool IsSecondState(const Thread& thread, uint32_t node) const;
  void TakeBlocked(Thread* thread, uint64_t ticks);
  void TakeAllBlocked(Time now);
  void TakeBlockedBefore(Time now);
  void TakeHolder(uint64_t state, const Thread& thread, uint32_t node, uint64_t ticks);
  void TakeUsage(const PythonReader::Thread& state, Thread* thread, uint64_t ticks, Time now);
  bool FindNode(const std::vector<PythonReader::Frame>& frames, uint32_t* node);
  struct Sampled {
    bool on_cpu, collecting;
    uint64_t ticks;
  };
  void Add(Thread* thread, uint32_t node, const Sampled& sampled);
  void CloseRun(Thread* thread);
  // For a thread whose state is gone, or belongs to another thread by now.
  void CloseThread(Thread* thread);
  void FinishUsage(Thread* thread);
  void EmitLimits(bool whole);
  void ReadName(Thread* thread, Time now);
  void EmitStatus(Time now);

  SampledProcess process_;
  ScopedFd pidfd_;
  ClockKind clock_;
  const EmitFrame& emit_;
  ReadMemory read_;
  ThreadIds ids_;
  PythonRuntime runtime_;
  std::optional<PythonReader> reader_;
  std::optional<PythonGil> gil_;
  std::optional<ThreadNames> names_;
  StackTrie trie_;
  std::map<uint64_t, Thread> threads_;  // by the address of the thread state
  std::vector<PythonReader::Frame> frames_;
  std::vector<PythonSample> pending_, collecting_;  // `collecting_`: samples of garbage collection
  std::vector<ThreadUsageRow> usage_;
  std::vector<BlockedCallRow> blocked_;
  std::optional<BlockedThreads> blocked_before_;
  Time next_before_{}, before_since_{};
  std::optional<BlockedThreads> all_blocked_;  // of all threads; none: only of the main thread, if it runs Python
  std::vector<GilHolderRow> holders_;
  ResidentReader resident_;
  std::vector<ResidentRow> resident_rows_;
  CpuLimitsReader limits_;
  bool limits_read_ = false;  // since sampling was switched on
  Time next_lookup_{}, next_emit_{}, next_status_{}, next_limits_{};
  std::chrono::milliseconds limits_interval_{0};
  std::chrono::milliseconds lookup_delay_{10};
  uint32_t failed_lists_ = 0;
  bool shared_ = false;  // several states belong to one thread
  bool ended_ = false;
  bool refused_ = false;
  bool initialised_ = false;  // the interpreter has had a thread
  PythonStatusFact status_ = {};
  PythonStatusFact emitted_status_ = {};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PROCESS_SAMPLER_H_
