// SPDX-License-Identifier: Apache-2.0
//
// Samples of a thread that uses CPU, taken by the kernel in user code: registers and a piece of the stack, by the
// thread's own clock of CPU time. The thread is neither stopped nor signalled.
//
//   int error;
//   std::unique_ptr<PerfEvent> event = PerfEvent::Open({.tid = tid, .period_ns = 10'000'000}, &error);
//   event->Read([](const PerfRecord& record) { ... });  // every few periods; a full buffer drops records and counts
//
// A thread is one event with a buffer of its own: threads made later are reported (kNewThread) and need their own. An
// inherited event would need one per CPU, and each new thread of the program would pay for all of them.
//
// Process: launcher. Not thread-safe. Nothing here waits. Untrusted: the buffer's content, as far as sizes go.
#ifndef TBPROF_LAUNCHER_SAMPLING_PERF_EVENTS_H_
#define TBPROF_LAUNCHER_SAMPLING_PERF_EVENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launcher/base/scoped.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

// Of the stack, copied with each sample.
inline constexpr uint32_t kPerfStackBytes = 8192;

struct PerfRecord {
  enum Kind {
    kSample,
    kLost,       // `lost` records did not fit into the buffer
    kNewThread,  // made by this one: `tid` of `pid`
    kExec,       // the process runs another program from now on
    kMapped,     // code of a file was mapped: `address` and what follows
    kExit,       // the thread ended
    kOther,
  };
  Kind kind = kOther;
  int32_t pid = 0, tid = 0;  // as the launcher sees them
  uint64_t time_ns = 0;      // CLOCK_MONOTONIC
  uint64_t lost = 0;
  uint64_t address = 0, length = 0, offset = 0, inode = 0;
  std::string path;
  StackSnapshot snapshot;  // kSample; without registers of a 32-bit program. Valid while the record's bytes are
};

// One record with its header, as it is in the buffer. False: its size and its content do not fit together.
bool ParsePerfRecord(std::span<const uint8_t> bytes, PerfRecord* record);

// Calls `take` for each record between `tail` and `head` of a buffer whose size is a power of two. Returns the new
// tail; `head` where sizes make no sense, which `corrupt` counts.
uint64_t ReadPerfRing(std::span<const uint8_t> ring, uint64_t tail, uint64_t head, std::vector<uint8_t>* scratch,
                      uint64_t* corrupt, const std::function<void(const PerfRecord&)>& take);

class PerfEvent {
 public:
  struct Options {
    pid_t tid = 0;
    uint64_t period_ns = 10'000'000;  // of the thread's CPU time between two samples
  };
  // Null: `error` is the error number of the call that failed.
  static std::unique_ptr<PerfEvent> Open(const Options& options, int* error);

  PerfEvent(const PerfEvent&) = delete;
  PerfEvent& operator=(const PerfEvent&) = delete;

  // What was recorded since the last call.
  void Read(const std::function<void(const PerfRecord&)>& take);
  // From the next sample on.
  void SetPeriod(uint64_t period_ns);
  uint64_t corrupt() const { return corrupt_; }

 private:
  PerfEvent() = default;

  ScopedFd fd_;
  ScopedMapping mapping_;
  std::vector<uint8_t> scratch_;
  uint64_t corrupt_ = 0;
};

// Whether the launcher may sample its own threads, and so those of its children: 0, or the error number of what failed.
int ProbePerfEvents();

// Of /proc/sys/kernel/perf_event_paranoid; INT_MIN: not known.
int PerfEventParanoid();

// Why a thread is not sampled, for the user.
struct PerfRefusal {
  std::string cause;   // `perf_event_paranoid is 4`
  std::string remedy;  // `as root: sysctl kernel.perf_event_paranoid=2`; empty: none
};
// `error`: of PerfEvent::Open.
PerfRefusal ExplainPerfRefusal(int error, int paranoid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PERF_EVENTS_H_
