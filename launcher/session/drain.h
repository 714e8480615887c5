// SPDX-License-Identifier: Apache-2.0
//
// Draining: one thread moves finished records from all segments into memory and does nothing else; another writes them
// to the spool. A chunk is free again before anything touches the disk.
//
//   Drain drain(spool_fd, clock, limit);
//   drain.Start();
//   drain.Add(std::move(segment));          // a target has said hello
//   drain.ProcessEnded(number, serial, pid);
//   drain.Flush();                          // everything recorded until now is in the spool file
//   drain.Stop();
//
// Process: launcher. Public functions: main thread only.
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
#include "launcher/base/scoped.h"
#include "launcher/session/slot_recorder.h"
#include "launcher/session/spool_writer.h"
#include "wire/chunk.h"
#include "wire/clock.h"
#include "writer/spool/spool.h"

namespace tbprof {

class Drain {
 public:
  Drain(ScopedFd spool, ClockKind clock, uint64_t spool_limit);  // one file, without parts
  Drain(ScopedFd spool, ClockKind clock, const SpoolPlan& plan, ScopedFd directory = ScopedFd());
  ~Drain();

  void Start();
  // Drains once more, writes everything, ends both threads. False: the file system gave no answer for `patience_ms`;
  // the threads are left in their calls, and the object must not be destroyed. 0: waits for as long as it takes.
  bool Stop(int patience_ms = 0);

  // After Stop: unmaps what is left.
  void ReleaseSegments();

  // The returned pointer stays valid until Remove.
  MappedSegment* Add(std::unique_ptr<MappedSegment> segment, const SegmentFact& fact);
  // Its processes are gone and what they left is drained: unmaps it.
  void Remove(uint32_t number);
  // A process of the segment has ended: what it left unfinished is given up, its slots are freed.
  void ProcessEnded(uint32_t number, uint32_t process_serial, pid_t outer_pid);
  void ProcessSeen(uint32_t number, uint32_t process_serial, pid_t outer_pid);
  // A frame of the launcher's own. Any thread.
  void Append(FrameType type, uint32_t segment, const void* payload, size_t size);

  // Returns when all that was recorded before the call, with the facts of every thread, is in the file. False: the disk
  // did not take it within the limit. `rotate`: what follows goes into another part of the spool.
  bool Flush(int limit_ms, bool rotate = false);
  void RequestFlush();

  // Idle passes are this far apart at most; if that is sooner than before, the next one is at once. `armed`: threads
  // may begin to record in between, so that the size of their segment is a limit, too.
  void SetIdleInterval(int milliseconds, bool armed);

  void SetRetention(Retention retention);

  // For who looks after processes: whether, since the last call, records came, a process began or a capture was asked
  // for in a target. `wait`: the next time it is so, activity_fd() becomes readable.
  bool ConsumeActivity(bool wait);
  int activity_fd() const { return activity_fd_.get(); }

  const SpoolWriter& spool() const { return writer_; }
  uint64_t records() const { return records_.load(std::memory_order_relaxed); }
  // Let go because the disk could not keep up.
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

  // What the main thread wants of a pass.
  struct Work {
    bool stopping = false, rotate = false;
    uint64_t flush = 0;
    Idle idle;
    std::vector<uint32_t> removals;
    std::vector<Ended> ended;
    std::unique_ptr<FrameBuffer> own;  // its frames
  };
  void DrainLoop();
  Work WaitForWork(int sleep_us);
  void RemoveSegments(const std::vector<uint32_t>& numbers);
  void QueueFlush(const Work& work);
  void WriteLoop();
  void NotifyActivity(uint64_t taken);
  int NextSleepUs(int sleep_us, Idle idle, uint64_t taken, uint64_t now) const;
  uint64_t Pass();  // bytes taken, as far as the pace goes
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
  std::atomic<bool> news_{false}, activity_wanted_{false};
  std::atomic<uint32_t> ended_count_{0};  // of ended_

  // Between the main and the drain thread.
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

  // The drain thread's own.
  std::unique_ptr<FrameBuffer> current_;
  std::vector<MappedSegment*> pass_segments_;
  std::vector<std::pair<uint64_t, uint32_t>> in_use_;  // chunks of the segment that is drained: begun, index
  std::set<ProcessKey> dead_;                          // ended since the last pass
  SlotRecorder slots_;
  bool heap_changes_ = false;
  uint64_t bursts_until_ns_ = 0;
  uint64_t last_hand_over_ns_ = 0, last_counters_ns_ = 0, last_facts_ns_ = 0;

  // Between the drain and the write thread.
  struct Block {
    std::unique_ptr<FrameBuffer> frames;
    uint64_t flush = 0;
    bool rotate = false;
    uint64_t records = 0;
    uint64_t first_ticks = 0, last_ticks = 0;  // when it was drained
    uint64_t records_let_go = 0;               // of that time, because the queue was full
    NotKept let_go;                            // what they were
  };
  std::mutex queue_mutex_;
  std::condition_variable queue_filled_, queue_emptied_, block_written_;
  bool queue_stands_ = false;  // for longer than a record can wait
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
