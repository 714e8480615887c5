// SPDX-License-Identifier: Apache-2.0
//
// Draining: the drain thread copies finished records from all segments into memory, the write thread writes them to the
// spool. A chunk is freed before its records are written, so that a slow disk does not hold up a target.
//
//   Drain drain(spool_fd, clock, limit);
//   drain.Start();
//   drain.Add(std::move(segment));          // a target has sent its hello
//   drain.ProcessEnded(number, serial, pid);
//   drain.Flush();                          // all records made until now are in the spool file
//   drain.Stop();
//
// Process: launcher. Public functions: main thread only; Append: any thread.
#ifndef TBPROF_LAUNCHER_SESSION_DRAIN_H_
#define TBPROF_LAUNCHER_SESSION_DRAIN_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "launcher/session/slot_recorder.h"
#include "launcher/session/spool_writer.h"
#include "wire/chunk.h"
#include "wire/clock.h"
#include "writer/base/scoped.h"
#include "writer/spool/spool.h"

namespace tbprof {

class Drain {
 public:
  Drain(ScopedFd spool, ClockKind clock, uint64_t spool_limit);  // one file without parts
  Drain(ScopedFd spool, ClockKind clock, const SpoolPlan& plan, ScopedFd directory = ScopedFd());
  ~Drain();

  // ResourceExhausted: a thread cannot be started, and none runs.
  absl::Status Start();
  // Drains once more, writes everything, joins both threads. Returns false if the file system did not complete a write
  // for `patience_ms`: the threads stay blocked in their system calls, and the object must not be destroyed. 0: no
  // limit.
  bool Stop(int patience_ms = 0);

  // After Stop: unmaps the remaining segments.
  void ReleaseSegments();

  // The returned pointer stays valid until Remove.
  MappedSegment* Add(std::unique_ptr<MappedSegment> segment, const SegmentFact& fact);
  // Unmaps a segment whose processes have ended and whose records are drained.
  void Remove(uint32_t number);
  // A process of the segment has ended: its unfinished records are discarded, its slots are freed.
  void ProcessEnded(uint32_t number, uint32_t process_serial, pid_t outer_pid);
  void ProcessSeen(uint32_t number, uint32_t process_serial, pid_t outer_pid);
  // Appends a frame of the launcher itself. Any thread.
  void Append(FrameType type, uint32_t segment, const void* payload, size_t size);

  // Returns when all records made before the call, and the facts of every thread, are in the file, or counted
  // as not kept. False: not within `limit_ms`. `rotate`: later records go into a new part of the spool.
  bool Flush(int limit_ms, bool rotate = false);
  void RequestFlush();

  // Sets the longest time between two idle passes; a shorter time than before starts a pass at once. `armed`: threads
  // may begin to record between two passes, so that the size of each segment also limits the time.
  void SetIdleInterval(int milliseconds, bool armed);

  void SetRetention(Retention retention);

  // Whether, since the last call, records arrived, a process started, a capture was requested in a target or a trigger
  // border was reported. `wait`: activity_fd() becomes readable at the next such event.
  bool ConsumeActivity(bool wait);
  int activity_fd() const { return activity_fd_.get(); }

  const SpoolWriter& spool() const { return writer_; }
  uint64_t records() const { return records_.load(std::memory_order_relaxed); }
  // Records dropped because the disk was too slow.
  uint64_t records_too_fast() const { return too_fast_.load(std::memory_order_relaxed); }

 private:
  struct Ended {
    uint32_t number, process_serial;
    pid_t outer_pid;
    bool ended;
  };

  struct Idle {
    int milliseconds = 10;
    bool armed = true;
  };

  // Requests of the main thread for one pass.
  struct Work {
    bool stopping = false, rotate = false;
    uint64_t flush = 0;
    Idle idle;
    std::vector<uint32_t> removals;
    std::vector<Ended> ended;
    std::unique_ptr<FrameBuffer> own;  // frames of Append
  };
  void DrainLoop();
  Work WaitForWork(int sleep_us);
  void RemoveSegments(const std::vector<uint32_t>& numbers);
  void QueueFlush(const Work& work);
  void WriteLoop();
  void NotifyActivity(uint64_t taken);
  int NextSleepUs(int sleep_us, Idle idle, uint64_t taken, uint64_t now) const;
  uint64_t Pass();  // bytes drained, plus a share for freed chunks; sets the pace
  uint64_t DrainSegment(MappedSegment* segment);
  static uint32_t WrittenSlots(const MappedSegment& segment, uint32_t chunk);
  void AppendChunk(const MappedSegment& segment, uint32_t index, const ChunkReadResult& read, uint64_t taken_ticks);
  void AppendFacts(bool all, uint64_t now);
  void HandOver(bool force);
  void WaitForRoom(std::unique_lock<std::mutex>* lock);
  bool HaveRoom() const;
  void GiveBackPages();

  SpoolWriter writer_;
  const ClockKind clock_;

  std::thread drain_thread_, write_thread_;
  ScopedFd activity_fd_;
  std::atomic<bool> has_activity_{false}, activity_wanted_{false};
  std::atomic<uint32_t> ended_count_{0};  // size of ended_

  // Shared by the main and the drain thread; guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable flushed_;
  std::vector<std::unique_ptr<MappedSegment>> segments_;
  std::vector<uint32_t> removals_;
  std::vector<Ended> ended_;
  std::unique_ptr<FrameBuffer> own_frames_;
  uint64_t flush_wanted_ = 0;
  uint64_t flush_drained_ = 0;
  uint64_t flush_written_ = 0;
  bool rotate_wanted_ = false;
  Idle idle_;
  bool pass_wanted_ = false;
  bool stop_ = false;

  // Used by the drain thread only.
  std::unique_ptr<FrameBuffer> current_;
  std::vector<MappedSegment*> pass_segments_;
  std::vector<std::pair<uint64_t, uint32_t>> in_use_;  // chunks of the current segment: begin ticks, index
  std::set<ProcessKey> dead_;                          // processes that ended since the last pass
  SlotRecorder slots_;
  bool heap_changes_ = false;
  uint64_t bursts_until_ns_ = 0;
  uint64_t last_hand_over_ns_ = 0, last_counters_ns_ = 0, last_facts_ns_ = 0;

  // Shared by the drain and the write thread; guarded by queue_mutex_.
  struct Block {
    std::unique_ptr<FrameBuffer> frames;
    uint64_t flush = 0;
    bool rotate = false;
    uint64_t records = 0;
    uint64_t first_ticks = 0, last_ticks = 0;  // time span of draining
    uint64_t records_dropped = 0;              // dropped in that time, because the queue was full
    NotKept dropped;                           // their counts by kind and operation
  };
  std::mutex queue_mutex_;
  std::condition_variable queue_filled_, queue_emptied_, block_written_;
  bool queue_stands_ = false;  // the disk took no block for kStandsMs
  std::deque<Block> queue_;
  uint64_t queued_bytes_ = 0;
  std::vector<std::unique_ptr<FrameBuffer>> spare_;
  bool queue_closed_ = false;
  uint64_t blocks_written_ = 0;
  bool write_ended_ = false;
  uint64_t current_records_ = 0;
  RecordCounts current_counts_;
  uint64_t current_first_ticks_ = 0;
  uint64_t touched_chunks_ = 0;

  std::atomic<uint64_t> records_{0}, too_fast_{0};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_DRAIN_H_
