// SPDX-License-Identifier: Apache-2.0
//
// What a thread does in some spans of time: in recorded calls that wait, and between them by samples.
//
//   ThreadTime time(timeline, classes, thread, spans);
//   for (const WaitSlice& wait : time.waits()) ...
//   time.running()                                   // by stack, what is left of the spans
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_THREAD_TIME_H_
#define TBPROF_WRITER_VERDICT_THREAD_TIME_H_

#include <cstdint>
#include <map>
#include <vector>

#include "writer/verdict/step_span.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

enum class WaitClass : uint8_t {
  kLock,     // a lock, a condition, a semaphore, a thread's end
  kGil,      // Python's
  kBarrier,  // pthread_barrier_wait
  kPool,     // threads of a library that computes: OpenMP, BLAS, PyTorch's
  kSleep,
  kFile,
  kFileRead,
  kFileSync,  // until a disk has it
  kTerminal,  // a write to stdout or stderr
  kPipe,      // another process at its other end
  kSocket,
  kPoll,   // for one of several descriptors, or for somebody to connect
  kChild,  // waitpid
  kGpuLaunch,
  kGpuWait,  // for the GPU
  kGpuCopy,  // a copy's call that waits until it is over
  kGpuCopyAsync,
  kGpuMemory,  // cudaMalloc and the like
  kGpuOther,
  kCollective,  // a call of NCCL
};

// A part of a call, within one span.
struct WaitSlice {
  int64_t start_ps = 0, end_ps = 0;
  int64_t call_end_ps = 0;  // of the whole call
  WaitClass kind = WaitClass::kLock;
  uint32_t stack = 0;  // index into PythonTimeline::stacks; 0: not known
  uint16_t type = 0;
  StringId call_site = 0;
  uint64_t object = 0;
};

struct RunningTime {
  int64_t on_cpu_ps = 0, off_cpu_ps = 0, collecting_ps = 0;
};

// The class of each type of event; the place decides about some. One is made for all threads.
class WaitClasses {
 public:
  explicit WaitClasses(const Timeline& timeline);
  // False: no wait, and no call of a GPU.
  bool Classify(const Event& event, WaitClass* kind) const;

 private:
  const Timeline& timeline_;
  std::vector<int> of_type_;  // WaitClass; -1: none
  bool has_backward_threads_ = false;
};

class ThreadTime {
 public:
  ThreadTime(const Timeline& timeline, const WaitClasses& classes, uint32_t thread, const std::vector<TimeSpan>& spans);

  const std::vector<WaitSlice>& waits() const { return waits_; }
  // By stack of Python.
  const std::map<uint32_t, RunningTime>& running() const { return running_; }
  int64_t gap_ps() const { return gap_ps_; }
  // Of the gaps, what no sample of Python stands for: the thread may run or not.
  int64_t unsampled_ps() const { return unsampled_ps_; }
  // What is between the waits.
  const std::vector<TimeSpan>& gaps() const { return gaps_; }

 private:
  void AddWaits(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                const std::vector<TimeSpan>& spans);
  void AddRunning(const PythonThread& python);

  std::vector<WaitSlice> waits_;
  std::vector<TimeSpan> gaps_;
  std::map<uint32_t, RunningTime> running_;
  int64_t gap_ps_ = 0, unsampled_ps_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_THREAD_TIME_H_
