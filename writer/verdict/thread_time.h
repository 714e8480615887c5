// SPDX-License-Identifier: Apache-2.0
//
// A thread's time within some spans: recorded calls that wait, and, between these calls, the time found by samples.
//
//   ThreadTime time(timeline, classes, thread, spans);
//   for (const WaitSlice& wait : time.waits()) ...
//   time.running()                                   // by stack: the rest of the spans
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
  kLock,     // a lock, a condition, a semaphore, the end of a thread
  kGil,      // Python's global interpreter lock
  kBarrier,  // pthread_barrier_wait
  kPool,     // threads of a computing library: OpenMP, BLAS, PyTorch
  kSleep,
  kFile,
  kFileRead,
  kFileSync,  // until the data is on the disk
  kTerminal,  // a write to stdout or stderr
  kPipe,      // with another process at the other end
  kSocket,
  kPoll,   // for one of several descriptors, or for a connection
  kChild,  // waitpid
  kGpuLaunch,
  kGpuWait,  // for the GPU
  kGpuCopy,  // a copy call that waits until the copy is complete
  kGpuCopyAsync,
  kGpuMemory,  // cudaMalloc and similar calls
  kGpuOther,
  kCollective,  // an NCCL call, or the backward pass waits for other ranks
};

// The part of a call that lies within one span.
struct WaitSlice {
  int64_t start_ps = 0, end_ps = 0;
  int64_t call_end_ps = 0;  // end of the whole call
  WaitClass kind = WaitClass::kLock;
  uint32_t stack = 0;  // index into PythonTimeline::stacks; 0: not known
  uint16_t type = 0;
  StringId call_site = 0;
  uint64_t object = 0;
  bool is_poll = false;    // for one of several descriptors, whatever `kind` says of what came of it
  bool timed_out = false;  // of a lock: nobody ended it
};

// Their time, merged.
std::vector<TimeSpan> SpansOf(const std::vector<WaitSlice>& waits);

struct RunningTime {
  int64_t on_cpu_ps = 0, off_cpu_ps = 0, collecting_ps = 0;
  int64_t cpu_ps = 0;  // part of on_cpu_ps, at most what the kernel counted: a thread may have run for a moment only
};

// Maps each event type to its class; for some types the call site decides. One object serves all threads.
class WaitClasses {
 public:
  explicit WaitClasses(const Timeline& timeline);
  // Waits at these call sites are of kPool: for threads of a library that compute.
  void AddPools(std::vector<StringId> call_sites);
  // Returns false if the event is neither a wait nor a GPU call.
  bool Classify(const Event& event, WaitClass* kind) const;
  // Whether a wait for a lock, by a thread of this process, may be for other processes of its process group.
  bool IsForGroup(const Event& event, uint32_t process) const;
  // Whether a process is one of several ranks, as its environment or the threads of a process group show.
  bool has_peers() const { return has_peers_; }
  // Whether calls of the type wait for a lock that one thread holds at a time, or may do so.
  bool IsOwned(uint16_t type) const { return type < are_owned_.size() && are_owned_[type]; }
  bool MayBeOwned(uint16_t type) const { return type < may_be_owned_.size() && may_be_owned_[type]; }
  bool IsAccept(uint16_t type) const { return type < are_accept_.size() && are_accept_[type]; }
  // Whether a wait of kLock is for a lock that another thread holds, not for what it makes: by the call, or, of a
  // library that waits on a futex or a condition, by the function that does.
  bool IsForLock(const WaitSlice& wait) const;

 private:
  const Timeline& timeline_;
  bool IsInBackward(uint32_t stack) const;

  std::vector<int> of_type_;                                 // WaitClass; -1: none
  std::vector<bool> are_owned_, may_be_owned_, are_accept_;  // by type
  bool has_backward_threads_ = false;
  bool has_peers_ = false;
  std::vector<StringId> pools_;           // sorted
  std::vector<bool> are_backward_;        // by function of Python: PyTorch's backward pass
  std::vector<bool> may_wait_for_group_;  // by function of Python: the program's own, or PyTorch's
  std::vector<bool> in_group_;            // by process: it has threads of PyTorch's process groups
};

class ThreadTime {
 public:
  ThreadTime(const Timeline& timeline, const WaitClasses& classes, uint32_t thread, const std::vector<TimeSpan>& spans);

  const std::vector<WaitSlice>& waits() const { return waits_; }
  // By Python stack.
  const std::map<uint32_t, RunningTime>& running() const { return running_; }
  int64_t gap_ps() const { return gap_ps_; }
  // The part of the gaps without a Python sample: whether the thread ran is unknown.
  int64_t unsampled_ps() const { return unsampled_ps_; }
  // The time between the waits.
  const std::vector<TimeSpan>& gaps() const { return gaps_; }
  // The Python stack at a time between the waits; 0: not known. `python`: of this thread.
  uint32_t StackBetweenWaits(const PythonThread& python, int64_t at_ps) const;

 private:
  bool IsInLongWait(int64_t at_ps) const;
  bool IsBetweenWaits(int64_t at_ps) const;
  void FindRunning(const PythonThread& python);
  void AddWaits(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                const std::vector<TimeSpan>& spans);
  void AddRunning(const PythonThread& python);

  std::vector<WaitSlice> waits_;
  std::vector<TimeSpan> gaps_;
  std::map<uint32_t, RunningTime> running_;
  // By run of Python's samples: the run whose stack is that of the gaps in it, mostly itself.
  std::vector<uint32_t> running_runs_;
  int64_t gap_ps_ = 0, unsampled_ps_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_THREAD_TIME_H_
