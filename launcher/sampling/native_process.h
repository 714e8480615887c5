// SPDX-License-Identifier: Apache-2.0
//
// Samples the native stacks of one process: opens a perf event for each thread, unwinds each sample as soon as it is
// read, and emits frames of the spool, stacks before the samples that refer to them. Also records the CPU usage of the
// main thread and of the threads that have samples.
//
//   NativeTarget process(target, shared, emit);
//   process.Start(10'000'000);         // a window is open
//   process.Take(now);                 // every few periods
//   process.Stop();                    // emits all samples taken before
//
// Process: launcher, the sampler's thread. Not thread-safe. Memory: at most kMaxThreads buffers,
// NativeShared::max_events in all processes; the stacks of StackTrie.
#ifndef TBPROF_LAUNCHER_SAMPLING_NATIVE_PROCESS_H_
#define TBPROF_LAUNCHER_SAMPLING_NATIVE_PROCESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/sampling/perf_events.h"
#include "launcher/sampling/random_interval.h"
#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/stack_trie.h"
#include "launcher/sampling/target_modules.h"
#include "launcher/sampling/thread_usage.h"
#include "launcher/sampling/tick_clock.h"
#include "writer/base/scoped.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

// State that the processes of a session share.
struct NativeShared {
  explicit NativeShared(ClockKind kind) : clock_kind(kind), clock(kind) {}

  ClockKind clock_kind;
  TickClock clock;
  ModuleFiles files;
  Unwinder unwinder;
  uint32_t events = 0;  // open events of all processes
  uint32_t max_events = 0;
  uint32_t max_switches = 0;  // SamplerOptions::max_switches
  RandomInterval periods{0.25};
};

class NativeTarget {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kMaxThreads = 1024;

  // `shared` and `emit` must outlive this.
  NativeTarget(const SampledProcess& process, NativeShared* shared, const EmitFrame& emit);
  ~NativeTarget() { CloseEvents(); }

  void Start(uint64_t period_ns);
  void Take(Time now);
  // The mean of the threads' periods. Call Take before: samples that are read later are recorded with the new period.
  void SetPeriod(uint64_t period_ns);
  void Emit();
  void Stop();
  bool ended() const { return ended_; }
  const SampledProcess& process() const { return process_; }

 private:
  struct Thread {
    std::unique_ptr<PerfEvent> event;
    int32_t inner = 0;  // thread id in the target's pid namespace
    bool exited = false;
    bool ran = false;                // a sample was taken since the usage was last read
    uint64_t unsampled_ns = 0;       // CPU time of the period before, which the next sample stands for, too
    uint32_t samples_of_period = 0;  // taken with this period
    ScopedFd schedstat;
    UsageTrack usage;
    uint64_t slices = 0;  // ScheduleReading::slices at `slices_at`
    Time slices_at{};
    bool paused = false;      // it switches too often to be sampled
    bool was_paused = false;  // at any time
  };

  // Opens an event for each thread. Repeats the listing until it finds no new thread.
  void OpenAll();
  bool ListThreads();
  // False: the thread exists, but no event could be opened for it.
  bool OpenThread(int32_t tid);
  void CloseEvents();
  void Refuse(int error);
  void TakeRecord(Thread* thread, const PerfRecord& record);
  void TakeSample(Thread* thread, const PerfRecord& record);
  uint64_t DrawPeriod(bool is_small);
  void ChangePeriod(Thread* thread);
  void TakeUsage(Time now);
  void ReadUsage(int32_t tid, Thread* thread, Time now);
  // The kernel starts and stops a timer of the event at each switch of the thread.
  void WatchSwitches(uint64_t slices, Thread* thread, Time now);
  std::string ReasonOfMissing() const;
  void EmitStatus(Time now);

  SampledProcess process_;
  ScopedFd pidfd_;
  NativeShared& shared_;
  const EmitFrame& emit_;
  TargetModules modules_;
  StackTrie trie_;
  std::map<int32_t, Thread> threads_;  // by thread id in the launcher's pid namespace
  std::vector<int32_t> made_;          // threads created by those whose records are being read
  std::vector<NativeSample> pending_;
  std::vector<ThreadUsageRow> usage_;
  uint64_t period_ns_ = 0;
  bool running_ = false;
  bool ended_ = false;
  bool replaced_ = false;  // by another program (exec)
  bool refused_ = false;
  bool nested_ = false;            // the target has its own pid namespace
  uint64_t threads_left_out_ = 0;  // threads without an event
  int left_out_error_ = 0;         // errno of the last of these threads
  uint64_t paused_threads_ = 0;    // threads that were paused at any time
  uint64_t corrupt_ = 0;
  Time next_listing_{}, next_emit_{}, next_status_{}, next_usage_{};
  std::string reason_;
  NativeStatusFact status_ = {};
  NativeStatusFact emitted_status_ = {};
  std::string emitted_reason_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_NATIVE_PROCESS_H_
