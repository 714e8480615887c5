// SPDX-License-Identifier: Apache-2.0
//
// Samples a thread while it uses CPU in user code. After each period of the thread's CPU time, the kernel copies its
// registers and a part of its stack. The thread is neither stopped nor signalled.
//
//   int error;
//   std::unique_ptr<PerfEvent> event = PerfEvent::Open({.tid = tid, .period_ns = 10'000'000}, &error);
//   event->Read([](const PerfRecord& record) { ... });  // every few periods; a full buffer drops and counts records
//
// Each thread has one event with its own buffer. Threads that are created later are reported (kNewThread) and need
// their own event. An inherited event would need one event per CPU, and each new thread would pay for all of them.
//
// Process: launcher. Not thread-safe. Nothing here waits, except SetPeriod for the CPU of a thread that runs.
// Untrusted: the sizes in the buffer.
#ifndef TBPROF_LAUNCHER_SAMPLING_PERF_EVENTS_H_
#define TBPROF_LAUNCHER_SAMPLING_PERF_EVENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "writer/base/scoped.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

// Bytes of the stack that are copied with each sample.
inline constexpr uint32_t kPerfStackBytes = 8192;

struct PerfRecord {
  enum Kind {
    kSample,
    kLost,       // `lost` records did not fit into the buffer
    kNewThread,  // this thread created thread `tid` of process `pid`
    kExec,       // the process runs another program from now on
    kMapped,     // code of a file was mapped: `address` ... `path` are set
    kExit,       // the thread ended
    kOther,
  };
  Kind kind = kOther;
  int32_t pid = 0, tid = 0;  // in the launcher's pid namespace
  uint64_t time_ns = 0;      // CLOCK_MONOTONIC
  uint64_t lost = 0;
  uint64_t address = 0, length = 0, offset = 0, inode = 0;
  std::string path;
  StackSnapshot snapshot;  // kSample; no registers for a 32-bit program. Valid as long as the record's bytes
};

// Parses one record of the buffer, with its header. False: its size does not match its content.
bool ParsePerfRecord(std::span<const uint8_t> bytes, PerfRecord* record);

// Calls `take` for each record between `tail` and `head` of a buffer whose size is a power of two. Returns the new
// tail. If a size is invalid, increments `corrupt` and returns `head`.
uint64_t ReadPerfRing(std::span<const uint8_t> ring, uint64_t tail, uint64_t head, std::vector<uint8_t>* scratch,
                      uint64_t* corrupt, const std::function<void(const PerfRecord&)>& take);

class PerfEvent {
 public:
  struct Options {
    pid_t tid = 0;
    uint64_t period_ns = 10'000'000;  // CPU time of the thread between two samples
    bool small = false;               // a buffer for 3 samples instead of 15
  };
  // Null: `error` is the error number of the call that failed.
  static std::unique_ptr<PerfEvent> Open(const Options& options, int* error);

  PerfEvent(const PerfEvent&) = delete;
  PerfEvent& operator=(const PerfEvent&) = delete;

  // Calls `take` for each record since the last call.
  void Read(const std::function<void(const PerfRecord&)>& take);
  struct Change {
    uint64_t cpu_ns = 0;  // CPU time of the thread since the change before, in user code and in the kernel
    uint64_t cut_ns = 0;  // of this, the part since the last full period, which ended without a sample
  };
  // Begins a new period now. None: the kernel refused, and the period is as before.
  std::optional<Change> SetPeriod(uint64_t period_ns);
  uint64_t period_ns() const { return period_ns_; }
  // Between the two there are no records of the thread, of its end neither.
  void Pause();
  void Resume();
  // Whether the buffer holds only 3 samples.
  bool is_small() const;
  uint64_t corrupt() const { return corrupt_; }

 private:
  PerfEvent() = default;

  // CPU time of the thread (ns) since the event was opened.
  uint64_t CpuNs() const;

  ScopedFd fd_;
  ScopedMapping mapping_;
  uint64_t period_ns_ = 0;
  uint64_t period_set_ns_ = 0;  // CpuNs() when the period was set
  std::vector<uint8_t> scratch_;
  uint64_t corrupt_ = 0;
};

// Tests whether the launcher may sample its own threads, and therefore those of its children. Returns 0, or the error
// number of the call that failed.
int ProbePerfEvents();

// The value of /proc/sys/kernel/perf_event_paranoid; INT_MIN: not known.
int PerfEventParanoid();

// Why a thread is not sampled, for the user.
struct PerfRefusal {
  std::string cause;   // `perf_event_paranoid is 4`
  std::string remedy;  // `as root: sysctl kernel.perf_event_paranoid=2`; empty: none
};
// `error`: the error number from PerfEvent::Open.
PerfRefusal ExplainPerfRefusal(int error, int paranoid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PERF_EVENTS_H_
