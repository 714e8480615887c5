// SPDX-License-Identifier: Apache-2.0
//
// Samples in which call each thread of a process is blocked, and which native function called it. For processes without
// tbprof's library, whose calls no hook sees. A thread that is blocked does not change its stack: the kernel names its
// stack pointer, and the return addresses are read from there. The thread is neither stopped nor changed.
//
//   BlockedThreads threads(pid, BlockedThreads::Scope::kAll);
//   threads.Sample(now, ticks, is_gil, {&blocked, &usage});     // at each tick
//   threads.Finish({&blocked, &usage});                         // when sampling stops
//
// Process: launcher, the thread of a sampler. Not thread-safe. Memory: kMaxThreads threads, kMaxOpen of them
// with two descriptors each.
#ifndef TBPROF_LAUNCHER_SAMPLING_BLOCKED_THREADS_H_
#define TBPROF_LAUNCHER_SAMPLING_BLOCKED_THREADS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launcher/sampling/blocked_in.h"
#include "launcher/sampling/target_memory.h"
#include "launcher/sampling/target_modules.h"
#include "launcher/sampling/thread_usage.h"
#include "writer/base/scoped.h"
#include "writer/spool/usage_rows.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

class BlockedThreads {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using IsGil = std::function<bool(uint64_t futex)>;
  static constexpr size_t kMaxThreads = 512, kMaxOpen = 128;

  // kFirst: each thread until it runs, of those that exist when sampling begins.
  enum class Scope : uint8_t { kAll, kFirst };
  BlockedThreads(pid_t pid, Scope scope)
      : pid_(pid), scope_(scope), read_(ProcessMemory(pid)), modules_(pid, &files_) {}

  struct Rows {
    std::vector<BlockedCallRow>* blocked;
    std::vector<ThreadUsageRow>* usage;  // CPU time of each thread, also of one that never blocks; null: not wanted
    int32_t without_tid = 0;             // this thread is left out
  };
  // `is_gil`: whether a futex belongs to Python's global interpreter lock.
  void Sample(Time now, uint64_t ticks, const IsGil& is_gil, const Rows& rows);
  // Emits the open rows; the next ones go on with the same calls.
  void Cut(std::vector<BlockedCallRow>* rows);
  // Emits the open rows: sampling stops.
  void Finish(const Rows& rows);
  // kFirst: each thread has run.
  bool IsDone() const;

 private:
  struct Thread {
    bool seen = true;
    int32_t inner = 0;  // id in the process's own pid namespace
    ScopedFd schedstat, syscall;
    std::optional<ScheduleReading> schedule;
    std::optional<Blocked> last;  // of the last sample; valid while the schedule does not change
    BlockedTrack track;
    UsageTrack usage;
    uint32_t looks = 0;
    bool done = false;  // kFirst: it ran
  };

  void ListThreads(Time now, const Rows& rows);
  static void End(Thread* thread, const Rows& rows);
  // `is_new`: the thread ran since the last sample.
  std::optional<Blocked> Look(int32_t tid, Thread* thread, Time now, const IsGil& is_gil, bool* is_new);
  // Finds Blocked::site and function; 0: not known.
  struct Call {
    uint64_t site = 0, function = 0;
  };
  Call CallOf(const Blocked& blocked, Time now);
  // The thread that holds a pthread mutex with this futex; 0: it is none, or nobody holds it.
  int32_t HolderOf(uint64_t futex) const;
  bool IsInLibc(uint64_t address) const;

  const pid_t pid_;
  const Scope scope_;
  const ReadMemory read_;
  ModuleFiles files_;
  TargetModules modules_;
  Unwinder unwinder_;
  std::map<int32_t, Thread> threads_;  // by thread id in the launcher's pid namespace
  std::vector<uint8_t> stack_;
  Time next_listing_{};
  uint32_t looks_ = 0;
  bool is_stopped_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_BLOCKED_THREADS_H_
