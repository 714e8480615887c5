// SPDX-License-Identifier: Apache-2.0
//
// What the slots of a segment say of its threads and processes, as frames of the spool: names, waits, counts, heap.
// Frees the slots of those that have ended.
//
//   SlotRecorder slots(clock);
//   slots.Append(segment, &frames);                       // all that lives and has ended
//   slots.AppendCounters(segment, ticks, &frames);        // bytes in use, where they have changed
//   slots.EndProcesses(segment, dead, &frames);
//
// Process: launcher, the drain's thread alone. Trusts nothing in a segment.
#ifndef TBPROF_LAUNCHER_SESSION_SLOT_RECORDER_H_
#define TBPROF_LAUNCHER_SESSION_SLOT_RECORDER_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "launcher/base/scoped.h"
#include "wire/chunk.h"
#include "wire/clock.h"
#include "writer/spool/spool.h"

namespace tbprof {

// A target's segment as the launcher holds it.
struct MappedSegment {
  uint32_t number = 0;
  pid_t pid = 0;          // as the launcher sees it
  bool same_pids = true;  // the target is in our pid namespace: its own numbers mean something here
  ScopedMapping mapping;
  ScopedFd file;  // of the mapping; none where descriptors are short, then the chunks of the dead are read to their end
  Segment segment{};
  std::vector<ChunkReader> readers;
  uint32_t operation_count = 0;
  uint32_t threads_exited = 0;  // as the segment counted them when slots were last freed
  uint32_t process_serial = 0, capture_requests = 0, borders = 0;  // as the last pass saw them
  // Of threads without a name in their slot, by serial: what the kernel calls them (comm).
  std::map<uint32_t, std::array<char, 16>> kernel_names;
  uint32_t next_kernel_name = 0;  // the thread slot to go on with
  std::vector<bool> touched;      // chunks whose pages this process has mapped since they were last given back
};

// Copies a structure that its owner changes meanwhile, word by word; the first `bytes` of it.
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

  // A process' number as the launcher sees it.
  void SetOuterPid(const ProcessKey& process, pid_t pid) { outer_pids_[process] = pid; }
  void Append(MappedSegment* mapped, FrameBuffer* frames);
  // Whether there was something new.
  bool AppendCounters(MappedSegment* mapped, uint64_t ticks, FrameBuffer* frames);
  // Names that threads got without our hooks; so many of each of `segments`, the next ones the next time.
  void ReadKernelNames(MappedSegment* mapped, size_t segments);
  // Of those in `dead`. Their chunks were closed by the pass before.
  void EndProcesses(MappedSegment* mapped, const std::set<ProcessKey>& dead, FrameBuffer* frames);
  // The segment is unmapped.
  void Forget(uint32_t number);

  // Whether so many threads have ended that their slots are wanted.
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
  std::map<ProcessKey, Heap> last_live_;  // as it was recorded last
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SLOT_RECORDER_H_
