// SPDX-License-Identifier: Apache-2.0
//
// What became of each block of one process (--malloc=exact): which are there, whose they are at the peak, which came
// and went at once.
//
// Most calls have no time of their own. Those between two times of a thread have their order, and times are spread over
// them evenly; calls of different threads are ordered by these times. Where that order cannot have been (a block comes
// that has not gone), the call that is late is paired with the one that waits for it, and the pair is counted as
// ambiguous.
//
//   blocks.BeginFrame(chunk);    // for each chunk frame of the process
//   blocks.Time(begin.ticks);    // for its ChunkBegin record, and for others that have a time
//   blocks.SetPython(place);     // where the calls behind it, of the thread, were made
//   blocks.Take(record);         // for its Allocation records
//   blocks.Finish();
//
// Process: converter, one thread. Memory: bounded by kMaxBuffered and the room given.
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
    uint32_t python = 0;   // of SetPython: PythonExact::PlaceOf; 0: not known
    uint64_t calls = 0;    // that gave a block
    uint64_t bytes = 0;
    uint64_t temporary = 0;  // of the calls: the thread gave the block back before it took another
    uint64_t live_blocks = 0;
    int64_t live_bytes = 0;
    int64_t peak_bytes = 0;  // when the process had its most; after Finish, as the next
    uint64_t peak_blocks = 0;

   private:
    friend class HeapBlocks;
    uint64_t peak_number = 0;
  };
  struct Totals {
    uint64_t allocations = 0;
    uint64_t releases = 0;
    uint64_t earlier = 0;       // of the releases: of blocks that were there before
    uint64_t ambiguous = 0;     // pairs
    uint64_t not_followed = 0;  // allocations for which there was no room
    uint64_t live_blocks = 0;
    uint64_t temporary = 0;
    int64_t live_bytes = 0;  // what came less what went
    int64_t peak_bytes = 0;
    uint64_t peak_ticks = 0;
    uint64_t widest_ticks = 0;  // the longest stretch over which times were spread
  };
  struct Sample {
    uint64_t ticks;
    int64_t bytes;
  };

  // Calls in [open, close) count. `room`: how many blocks may still be followed, of all processes together; outlives
  // this.
  HeapBlocks(uint64_t open, uint64_t close, size_t* room);

  // The frames of a process in the order of its spool; what is reported then is of the last one.
  void BeginFrame(const ChunkFact& chunk);
  void Time(uint64_t ticks);
  void Take(const AllocationRecord& record);
  void SetPython(uint32_t place);
  void Finish();

  const Totals& totals() const { return totals_; }
  const std::vector<Site>& sites() const { return sites_; }
  // The live bytes over the window: of each of so many equal parts the highest.
  const std::vector<Sample>& curve() const { return curve_; }
  // What sites hold more or less than before, by index into sites().
  const HeapGrowth& growth() const { return growth_; }

  static constexpr size_t kMaxBuffered = 1 << 20;
  static constexpr size_t kCurveParts = 2000;
  static constexpr size_t kMaxSites = 1 << 18;  // the rest together, at address 0

 private:
  struct Call {
    uint64_t ticks;
    uint64_t address;
    uint64_t size;
    uint32_t site;
    uint32_t thread;  // in threads_
    bool release;
    bool restored;
  };
  struct Thread {
    uint64_t last = 0;            // no further call of it is before
    uint64_t latest_block = 0;    // address; 0: it has given one back since
    uint32_t python = 0;          // of what it does next
    std::vector<size_t> untimed;  // in buffer_
  };
  struct Block {
    uint64_t size;
    uint32_t site;
  };
  struct Unpaired {
    uint32_t calls = 0;
    uint64_t latest = 0;  // ticks
  };

  // Takes one of an address's, if there is one.
  static bool TakeUnpaired(absl::flat_hash_map<uint64_t, Unpaired>* calls, uint64_t address);
  uint32_t SiteOf(uint64_t address, uint32_t python);
  uint32_t ThreadOf(uint32_t serial);
  void Append(const AllocationRecord& record);
  // The frames read so far, each thread's in the order in which it has written them: those of chunks that were claimed
  // up to `claimed`.
  void Digest(uint64_t claimed);
  void DigestRecord(const AllocationRecord& record, uint32_t thread);
  // Gives times up to `until` to the thread's calls without one.
  void Spread(uint32_t thread, uint64_t until);
  void SpreadAll(uint64_t until);
  // All calls up to `until`, in their order.
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
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint32_t> site_ids_;  // by address and Python's place
  std::pair<uint64_t, uint32_t> last_site_key_;
  uint32_t last_site_ = 0;
  std::vector<Thread> threads_;
  absl::flat_hash_map<uint32_t, uint32_t> thread_ids_;
  std::vector<uint32_t> with_untimed_;  // in threads_; some of them may have none any more
  // One frame's part of records_.
  struct Piece {
    uint32_t thread;
    uint64_t claimed;  // the chunk, in ticks
    uint64_t after;    // the pass before, which would have read what was made by then
    size_t begin, end;
  };
  struct Claim {
    uint16_t generation = 0;
    uint64_t ticks = 0;
  };
  std::vector<Piece> pieces_;
  absl::flat_hash_map<uint32_t, Claim> claims_;  // by chunk
  uint32_t chunk_ = 0;                           // of the frame at hand
  bool begins_ = false;                          // and nothing of it was reported yet, its begin comes first
  // Of pieces_; of kind kPad: a time, 64 bits of it; of kind kPythonStack: a place, in `address`.
  std::vector<AllocationRecord> records_;
  std::vector<Call> buffer_;
  uint64_t pass_ = 0, pass_before_ = 0;
  uint64_t applied_ = 0;
  absl::flat_hash_map<uint64_t, Block> blocks_;
  // By address: releases of a block that is not there; and blocks that came where one was, whose release is to come.
  absl::flat_hash_map<uint64_t, Unpaired> early_, owed_;
  uint64_t peak_number_ = 1;
  std::vector<Sample> curve_;
  HeapGrowth growth_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HEAP_BLOCKS_H_
