// SPDX-License-Identifier: Apache-2.0
//
// Follows each block of one process (--malloc=exact): which blocks are live, which sites own the memory at the peak,
// and which blocks are temporary.
//
// Most calls have no time. Calls between two times of a thread keep their order, and get times that are spread evenly
// between the two; calls of different threads are ordered by these times. If that order is impossible (a block is
// allocated at the address of a live block), the late call is paired with the call that waits for it, and the pair
// counts as ambiguous.
//
//   blocks.BeginFrame(chunk);    // for each chunk frame of the process
//   blocks.Time(begin.ticks);    // for its ChunkBegin record, and for other records with a time
//   blocks.SetPython(place);     // the place of the next calls of the thread
//   blocks.Take(record);         // for its Allocation records
//   blocks.Finish();
//
// Process: converter, one thread. Memory: bounded by kMaxBuffered and `room`.
#ifndef TBPROF_WRITER_CONVERT_HEAP_BLOCKS_H_
#define TBPROF_WRITER_CONVERT_HEAP_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "wire/records.h"
#include "writer/convert/heap_growth.h"
#include "writer/spool/spool.h"

namespace tbprof {

class HeapBlocks {
 public:
  struct Site {
    uint64_t address = 0;  // return address in the caller of the allocator
    uint32_t python = 0;   // from SetPython: PythonExact::PlaceOf; 0: not known
    uint64_t calls = 0;    // that returned a block
    uint64_t bytes = 0;
    uint64_t temporary = 0;  // of the calls: the thread released the block before it allocated another
    uint64_t live_blocks = 0;
    int64_t live_bytes = 0;
    int64_t peak_bytes = 0;  // at the peak of the process; valid after Finish, as the next
    uint64_t peak_blocks = 0;

   private:
    friend class HeapBlocks;
    uint64_t peak_number = 0;
  };
  struct Totals {
    uint64_t allocations = 0;
    uint64_t releases = 0;
    uint64_t earlier = 0;       // of the releases: blocks from before the window
    uint64_t ambiguous = 0;     // pairs
    uint64_t not_followed = 0;  // allocations for which there was no room
    uint64_t live_blocks = 0;
    uint64_t temporary = 0;
    int64_t live_bytes = 0;  // allocated less released
    int64_t peak_bytes = 0;
    uint64_t peak_ticks = 0;
    uint64_t widest_ticks = 0;  // the longest interval over which times were spread
  };
  struct Sample {
    uint64_t ticks;
    int64_t bytes;
  };

  // Only calls in [open, close) count. `room`: how many more blocks may be followed, in all processes together; must
  // outlive this.
  HeapBlocks(uint64_t open, uint64_t close, size_t* room);

  // Call for the frames of a process in the order of its spool; the records taken next are of the latest frame.
  void BeginFrame(const ChunkFact& chunk);
  void Time(uint64_t ticks);
  void Take(const AllocationRecord& record);
  void SetPython(uint32_t place);
  void Finish();

  const Totals& totals() const { return totals_; }
  const std::vector<Site>& sites() const { return sites_; }
  // The live bytes over the window: the highest value of each of kCurveParts equal parts.
  const std::vector<Sample>& curve() const { return curve_; }
  // The changes of the bytes that sites hold, by index into sites().
  const HeapGrowth& growth() const { return growth_; }

  static constexpr size_t kMaxBuffered = 1 << 20;
  static constexpr size_t kCurveParts = 2000;
  static constexpr size_t kMaxSites = 1 << 18;  // further sites share the one at address 0

 private:
  struct Call {
    uint64_t ticks;
    uint64_t address;
    uint64_t size;
    uint32_t site;
    uint32_t thread;  // index into threads_
    bool release;
    bool restored;
  };
  struct Thread {
    uint64_t last = 0;            // no later call of the thread is before this
    uint64_t latest_block = 0;    // address; 0: the thread has released a block since
    uint32_t python = 0;          // place of its next calls
    std::vector<size_t> untimed;  // indices into buffer_
  };
  struct Block {
    uint64_t size;
    uint32_t site;
  };
  struct Unpaired {
    uint32_t calls = 0;
    uint64_t latest = 0;  // ticks
  };

  // Removes one call at the address; returns false if there is none.
  static bool TakeUnpaired(absl::flat_hash_map<uint64_t, Unpaired>* calls, uint64_t address);
  uint32_t SiteOf(uint64_t address, uint32_t python);
  uint32_t ThreadOf(uint32_t serial);
  void Append(const AllocationRecord& record);
  // Processes the frames read so far, each thread's in the order in which the thread wrote them: those of chunks that
  // were claimed up to `claimed`.
  void Digest(uint64_t claimed);
  void DigestRecord(const AllocationRecord& record, uint32_t thread);
  // Gives times up to `until` to the calls of the thread that have none.
  void Spread(uint32_t thread, uint64_t until);
  void SpreadAll(uint64_t until);
  // Applies all calls up to `until`, in order of time.
  void Apply(uint64_t until);
  void ApplyCall(const Call& call);
  void Came(const Call& call);
  void Went(const Call& call);
  void Remove(uint64_t address, const Block& block, uint64_t ticks);
  void Change(uint32_t site, int64_t bytes, int blocks, uint64_t ticks);
  void SetLive(int64_t bytes, uint64_t ticks);

  const uint64_t open_, close_;
  size_t* const room_;
  Totals totals_;
  std::vector<Site> sites_;
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint32_t> site_ids_;  // by address and Python place
  std::pair<uint64_t, uint32_t> last_site_key_;
  uint32_t last_site_ = 0;
  std::vector<Thread> threads_;
  absl::flat_hash_map<uint32_t, uint32_t> thread_ids_;
  std::vector<uint32_t> with_untimed_;  // indices into threads_; some may have no untimed calls any more
  // The part of records_ that belongs to one frame.
  struct Piece {
    uint32_t thread;
    uint64_t claimed;  // when the chunk was claimed, in ticks
    uint64_t after;    // the pass before, in ticks, which would have read older records
    size_t begin, end;
  };
  struct Claim {
    uint16_t generation = 0;
    uint64_t ticks = 0;
  };
  std::vector<Piece> pieces_;
  absl::flat_hash_map<uint32_t, Claim> claims_;  // by chunk
  uint32_t chunk_ = 0;                           // of the current frame
  bool begins_ = false;                          // nothing of the frame was taken yet: its ChunkBegin comes first
  // The records of pieces_. Kind kPad: a time, 64 bits in `ticks`; kind kPythonStack: a place, in `address`.
  std::vector<AllocationRecord> records_;
  std::vector<Call> buffer_;
  uint64_t pass_ = 0, pass_before_ = 0;
  uint64_t applied_ = 0;
  absl::flat_hash_map<uint64_t, Block> blocks_;
  // By address: releases without a block (early_), and blocks allocated over a live one that is still to be released
  // (owed_).
  absl::flat_hash_map<uint64_t, Unpaired> early_, owed_;
  uint64_t peak_number_ = 1;
  std::vector<Sample> curve_;
  HeapGrowth growth_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HEAP_BLOCKS_H_
