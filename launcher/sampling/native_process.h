// SPDX-License-Identifier: Apache-2.0
//
// The native samples of one process: an event for each of its threads, whose samples are unwound at once and emitted as
// frames of the spool, stacks before the samples that refer to them. And what the main thread, and those that have
// samples, use of the CPUs.
//
//   NativeProcess process(target, shared, emit);
//   process.Start(10'000'000);         // a window is open
//   process.Take(now);                 // every few periods
//   process.Stop();                    // what was sampled before is emitted
//
// Process: launcher, the sampler's thread. Not thread-safe. Memory: kMaxThreads buffers, NativeShared::max_events in
// all processes; the stacks of StackTrie.
#ifndef TBPROF_LAUNCHER_SAMPLING_NATIVE_PROCESS_H_
#define TBPROF_LAUNCHER_SAMPLING_NATIVE_PROCESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/scoped.h"
#include "launcher/sampling/perf_events.h"
#include "launcher/sampling/stack_sampler.h"
#include "launcher/sampling/stack_trie.h"
#include "launcher/sampling/target_modules.h"
#include "launcher/sampling/thread_usage.h"
#include "launcher/sampling/tick_clock.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

// What the processes of a session share.
struct NativeShared {
  explicit NativeShared(ClockKind kind) : clock_kind(kind), clock(kind) {}

  ClockKind clock_kind;
  TickClock clock;
  ModuleFiles files;
  Unwinder unwinder;
  uint32_t events = 0;  // open, in all processes
  uint32_t max_events = 0;
};

class NativeProcess {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kMaxThreads = 1024;

  // `shared` and `emit` must outlive this.
  NativeProcess(const StackSampler::Process& process, NativeShared* shared, const StackSampler::Emit& emit);
  ~NativeProcess() { CloseEvents(); }

  void Start(uint64_t period_ns);
  void Take(Time now);
  // Takes what came before with the old period first.
  void SetPeriod(uint64_t period_ns);
  void Emit();
  void Stop();
  bool ended() const { return ended_; }
  const StackSampler::Process& process() const { return process_; }

 private:
  struct Thread {
    std::unique_ptr<PerfEvent> event;
    int32_t inner = 0;  // as the target numbers it
    bool exited = false;
    bool ran = false;  // it has a sample since its usage was read
    ScopedFd schedstat;
    UsageTrack usage;
  };

  // Finds threads until a listing brings nothing new.
  void OpenAll();
  bool ListThreads();
  // False: there is such a thread, but no event for it.
  bool OpenThread(int32_t tid);
  void CloseEvents();
  void Refuse(int error);
  void TakeRecord(Thread* thread, const PerfRecord& record);
  void TakeSample(Thread* thread, const PerfRecord& record);
  void TakeUsage(Time now);
  void ReadUsage(int32_t tid, Thread* thread, Time now);
  void EmitStatus(Time now);

  StackSampler::Process process_;
  ScopedFd pidfd_;
  NativeShared& shared_;
  const StackSampler::Emit& emit_;
  TargetModules modules_;
  StackTrie trie_;
  std::map<int32_t, Thread> threads_;  // by our number
  std::vector<int32_t> made_;          // by threads whose records are being read
  std::vector<NativeSample> pending_;
  std::vector<ThreadUsageRow> usage_;
  uint64_t period_ns_ = 0;
  bool running_ = false;
  bool ended_ = false;
  bool replaced_ = false;  // by another program
  bool refused_ = false;
  bool nested_ = false;            // in a pid namespace of its own
  uint64_t threads_left_out_ = 0;  // no event could be opened
  int left_out_error_ = 0;         // of the last of them
  uint64_t corrupt_ = 0;
  Time next_listing_{}, next_emit_{}, next_status_{}, next_usage_{};
  std::string reason_;
  NativeStatusFact status_ = {};
  NativeStatusFact emitted_status_ = {};
  std::string emitted_reason_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_NATIVE_PROCESS_H_
