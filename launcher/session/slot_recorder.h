// SPDX-License-Identifier: Apache-2.0
//
// Writes the slots of a segment as frames of the spool: names, waits, counts and heap of its threads and processes.
// Frees the slots of ended threads and processes.
//
//   SlotRecorder slots(clock);
//   slots.Append(segment, &frames);                       // all live and ended threads, live processes
//   slots.AppendCounters(segment, ticks, &frames);        // bytes in use, if they have changed
//   slots.EndProcesses(segment, dead, &frames);
//
// Process: launcher, drain thread only. Does not trust a segment's content.
#ifndef TBPROF_LAUNCHER_SESSION_SLOT_RECORDER_H_
#define TBPROF_LAUNCHER_SESSION_SLOT_RECORDER_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "wire/chunk.h"
#include "wire/clock.h"
#include "writer/base/scoped.h"
#include "writer/spool/spool.h"

namespace tbprof {

// A target's segment, mapped in the launcher.
struct MappedSegment {
  uint32_t number = 0;
  pid_t pid = 0;          // in the launcher's pid namespace
  bool same_pids = true;  // the target is in the launcher's pid namespace: its pids are valid here
  ScopedMapping mapping;
  ScopedFd file;  // of the mapping; none if descriptors are scarce: chunks of ended threads are then read to their end
  Segment segment{};
  std::vector<ChunkReader> readers;
  uint32_t operation_count = 0;
  uint32_t threads_exited = 0;  // SegmentHeader::threads_exited when slots were last freed
  uint32_t process_serial = 0, capture_requests = 0, borders = 0;  // as of the last pass
  // The kernel's names (comm) of threads without a name in their slot, by serial.
  std::map<uint32_t, std::array<char, 16>> kernel_names;
  uint32_t next_kernel_name = 0;              // the next thread slot to read
  std::atomic<uint64_t> dropped_by_ended{0};  // records of threads whose slots were freed
  std::vector<bool> touched;                  // chunks whose pages this process has mapped since the last GiveBackPages
};

// Records that found no room in the segment since it was made. Any thread.
uint64_t DroppedRecords(const MappedSegment& mapped);

// Copies the first `bytes` of a structure word by word, while its owner may change it.
template <typename T>
T Snapshot(const T& shared, size_t bytes = sizeof(T)) {
  static_assert(sizeof(T) % 8 == 0);
  T copy;
  auto* out = reinterpret_cast<uint64_t*>(&copy);
  const auto* in = reinterpret_cast<const uint64_t*>(&shared);
  for (size_t i = 0; i < bytes / 8; ++i) out[i] = __atomic_load_n(in + i, __ATOMIC_RELAXED);
  return copy;
}

// A process of a segment.
struct ProcessKey {
  uint32_t number, serial;
  bool operator<(const ProcessKey& other) const {
    return number != other.number ? number < other.number : serial < other.serial;
  }
};

class SlotRecorder {
 public:
  explicit SlotRecorder(ClockKind clock) : clock_(clock) {}

  // Sets a process's pid in the launcher's pid namespace.
  void SetOuterPid(const ProcessKey& process, pid_t pid) { outer_pids_[process] = pid; }
  void Append(MappedSegment* mapped, FrameBuffer* frames);
  // Returns whether a value has changed.
  bool AppendCounters(MappedSegment* mapped, uint64_t ticks, FrameBuffer* frames);
  // Reads names that threads got without a hook. Each call reads a share of the limit for each of `segments`; the next
  // call continues with the next slots.
  void ReadKernelNames(MappedSegment* mapped, size_t segments);
  // Writes the last facts of the processes in `dead` and frees their slots. The preceding pass has drained their
  // chunks.
  void EndProcesses(MappedSegment* mapped, const std::set<ProcessKey>& dead, FrameBuffer* frames);
  // Removes the state of a segment that is unmapped.
  void Forget(uint32_t number);

  // Whether so many threads have ended that their slots should be freed.
  static bool HasSlotsToFree(const MappedSegment& mapped);

 private:
  void AppendThreadFact(MappedSegment* mapped, const ThreadSlot& slot, bool last, FrameBuffer* frames) const;
  static void AppendCallCounts(uint32_t number, const ThreadSlot& slot, const ThreadFact& thread, bool last,
                               FrameBuffer* frames);
  void AppendProcessFact(MappedSegment* mapped, const ProcessSlot& slot, uint64_t end_ticks, FrameBuffer* frames) const;

  const ClockKind clock_;
  std::map<ProcessKey, pid_t> outer_pids_;
  struct Heap {
    int64_t live = 0, peak = 0;
  };
  std::map<ProcessKey, Heap> last_live_;  // last recorded values
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SLOT_RECORDER_H_
