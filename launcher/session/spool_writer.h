// SPDX-License-Identifier: Apache-2.0
//
// Writes the spool: facts into the main file, records into parts beside it; removes parts that are no longer needed.
// The first records go into the main file too, so that the spool of a short run is one file.
//
//   SpoolWriter writer(std::move(main_file), plan);
//   writer.SetRetention(retention);                       // any thread
//   flags = writer.CountRecords(chunk, &counts, &summary);  // any thread; best while the chunk is in its cache
//   writer.Write(frames, records, first_ticks, last_ticks);  // write thread
//   writer.Tidy(now);                                     // write thread: drops parts that are not needed
//
// Records never exceed the plan's limit; totals and lasting facts may. Records that are not kept are counted in a
// GapFact with their time span; a dropped part is noted in a PartFact, and its calls and GPU work are added to running
// totals. A part that a range needs is never dropped, so that a conversion finds all parts that it has to read.
//
// Process: launcher. Write, NoteGap, Rotate, Tidy and Finish: write thread only; all others: any thread.
#ifndef TBPROF_LAUNCHER_SESSION_SPOOL_WRITER_H_
#define TBPROF_LAUNCHER_SESSION_SPOOL_WRITER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "launcher/session/not_kept.h"
#include "writer/base/scoped.h"
#include "writer/spool/gpu_facts.h"
#include "writer/spool/gpu_totals.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct SpoolPlan {
  std::string path;      // of the main file; part names are derived from it; empty: one file without parts
  uint64_t limit = 0;    // bytes of all files; 0: no limit
  uint64_t reserve = 0;  // part of `limit` that is reserved for captures, not for the run itself
  uint64_t part_bytes = 16u << 20;
  bool parts_at_once = false;  // no records go into the main file, from which they cannot be dropped
  // For a run that keeps everything: beyond this many bytes only the records so far and the last `split_sliding_ticks`
  // are kept, until the main thread splits the run. 0: recording of the run stops at the limit.
  uint64_t split_bytes = 0;
  uint64_t split_sliding_ticks = 0;
  uint64_t session = 0;
  uint64_t long_ticks = UINT64_MAX;  // spans of at least this length also count as long_spans
};

// Which records stay in the spool. Ranges are in ticks of the time at which records were drained.
struct Retention {
  bool everything = true;      // all of the run; recording of the run stops at the limit
  uint64_t sliding_ticks = 0;  // keeps the last sliding_ticks; 0: not used
  bool totals = false;         // calls in dropped parts are added to the totals
  struct Range {
    uint64_t from = 0, to = UINT64_MAX;
    bool needed = true;  // being recorded or converted; else it may be dropped when room is short
  };
  std::vector<Range> ranges;
};

struct RecordCounts {
  uint64_t spans = 0, long_spans = 0;  // annotation ranges count as spans
  uint64_t kernels = 0;
  uint64_t sample_bytes = 0, bytes = 0;  // allocator samples; all records
};

class SpoolWriter {
 public:
  // `directory`: of the files; it may be renamed later. Without it the directory of the plan's path is opened.
  SpoolWriter(ScopedFd main, const SpoolPlan& plan, ScopedFd directory = ScopedFd());

  // Adds the records of a chunk frame's payload to `counts`. Returns the flags for its frame: kFrameFacts if needed, or
  // kFrameSummary if `summary` was filled and may follow the slots.
  uint16_t CountRecords(std::span<const uint8_t> payload, RecordCounts* counts, ChunkSummary* summary) const;
  void Add(const RecordCounts& counts);
  // Chunk frames without kFrameFacts are not read.
  void Write(std::span<const uint8_t> frames, uint64_t records, uint64_t first_ticks, uint64_t last_ticks);
  // Notes records that were dropped before Write.
  void NoteGap(GapCause cause, uint64_t records, uint64_t first_ticks, uint64_t last_ticks, const NotKept& what);
  void Rotate();  // later records go into a new part
  void Tidy(uint64_t now_ticks);
  void Finish();  // writes the last gap

  void SetRetention(Retention retention);
  // The parts with records that were drained from `from` to `to`; first_part 1, last_part 0: none.
  SpoolExtent ExtentOf(uint64_t from, uint64_t to) const;

  int fd() const { return main_.get(); }
  uint64_t main_bytes() const { return main_bytes_.load(std::memory_order_relaxed); }  // without the header
  uint64_t total_bytes() const { return total_bytes_.load(std::memory_order_relaxed); }
  uint64_t records_not_kept() const { return not_kept_.load(std::memory_order_relaxed); }
  uint64_t spans() const { return spans_.load(std::memory_order_relaxed); }
  uint64_t long_spans() const { return long_spans_.load(std::memory_order_relaxed); }
  // Bytes of drained records, kept or not.
  uint64_t sample_bytes() const { return sample_bytes_.load(std::memory_order_relaxed); }
  uint64_t drained_bytes() const { return drained_bytes_.load(std::memory_order_relaxed); }
  uint64_t parts_dropped() const { return drops_.load(std::memory_order_relaxed); }
  bool full() const { return full_.load(std::memory_order_relaxed); }
  int write_error() const { return write_error_.load(std::memory_order_relaxed); }  // the latest errno; 0: none
  // Kernels, and CUDA graphs recorded as a whole, of all processes.
  uint64_t kernels() const { return kernels_.load(std::memory_order_relaxed); }
  // The facts that all processes have reported about recording GPUs.
  GpuFacts gpu_facts() const;
  // When keeping everything ended: stopped at the limit, or split. UINT64_MAX: not yet.
  uint64_t stopped_ticks() const { return stopped_ticks_.load(std::memory_order_relaxed); }
  uint64_t split_ticks() const { return split_ticks_.load(std::memory_order_relaxed); }

 private:
  struct Part {
    PartFact fact{};
    ScopedFd fd;  // open only in the last part, while it grows
    bool has_gpu_memory = false;
  };
  struct Key {
    uint32_t segment, process, operation;
    uint64_t site;
    friend bool operator==(const Key& a, const Key& b) {
      return std::tie(a.segment, a.process, a.operation, a.site) == std::tie(b.segment, b.process, b.operation, b.site);
    }
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.segment, key.process, key.operation, key.site);
    }
  };
  struct Sum {
    uint64_t calls = 0, ticks = 0, longest = 0;
  };

  bool Wanted(uint64_t first_ticks, uint64_t last_ticks) const;
  bool IsIn(const Retention& retention, const PartFact& part, uint64_t now, bool needed_only) const;
  uint64_t SlidingTicks(const Retention& retention) const;
  bool MakeRoom(uint64_t bytes, const Retention& retention);
  bool MakeRoomWithin(uint64_t limit, uint64_t bytes);
  // Takes the oldest part that need not be kept off the list.
  std::optional<Part> TakeOldest(bool under_pressure, uint64_t now_ticks);
  bool DropOldest(bool under_pressure, uint64_t now_ticks);
  // `totals`: adds all calls and GPU work to the totals; else only GPU memory.
  void Drop(Part part, bool totals, bool disk_is_full);
  void CountDropped(const Part& part, bool totals);
  void WriteTotals(bool totals);
  void TakeFacts(const Frame& frame, FrameBuffer* kept);
  void WriteWhole(std::span<const uint8_t> frames, uint64_t records, uint64_t first_ticks, uint64_t last_ticks);
  bool WriteMain(const FrameBuffer& frames);
  // Pieces of a buffer, written one after the other into the part.
  using Pieces = std::vector<std::span<const uint8_t>>;
  void ChooseMode(size_t bytes, uint64_t records, uint64_t first_ticks);
  void WriteFacts(const FrameBuffer& facts, uint64_t records);
  void WriteIntoPart(const Pieces& part, uint64_t bytes, uint64_t records, uint64_t first_ticks, uint64_t last_ticks);
  int WritePart(const Pieces& pieces, uint64_t records, uint64_t first_ticks, uint64_t last_ticks);
  int BeginPart(uint64_t ticks);
  bool IsRemoved() const;
  void NoteNotKept(GapCause cause, uint64_t records, uint64_t first_ticks, uint64_t last_ticks, int error,
                   const Pieces& pieces);
  void WriteGap();
  Retention CurrentRetention() const;

  const SpoolPlan plan_;
  const std::string name_;  // name of the main file in directory_
  ScopedFd main_, directory_;
  uint64_t limit_;
  bool in_parts_;
  bool directory_gone_ = false;

  mutable std::mutex mutex_;
  Retention retention_;
  std::vector<Part> parts_;  // ascending; only the write thread changes it
  GpuFacts gpu_facts_;

  // Used by the write thread only.
  uint32_t next_part_ = 1;
  uint64_t now_ticks_ = 0;
  GapFact gap_{};
  NotKept not_kept_rows_;
  absl::flat_hash_map<Key, Sum> totals_;
  GpuTotals gpu_totals_;
  bool block_has_gpu_memory_ = false;  // the block that is being written
  uint64_t lost_ = 0;

  std::atomic<uint64_t> main_bytes_{0}, total_bytes_{0}, not_kept_{0}, spans_{0}, long_spans_{0}, drops_{0};
  std::atomic<uint64_t> kernels_{0}, sample_bytes_{0}, drained_bytes_{0};
  std::atomic<uint64_t> stopped_ticks_{UINT64_MAX}, split_ticks_{UINT64_MAX};
  std::atomic<int> write_error_{0};
  std::atomic<bool> full_{false};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SPOOL_WRITER_H_
