// SPDX-License-Identifier: Apache-2.0
//
// A segment between two inaccessible pages, a writer that numbers its spans, and a reader that does what the drain
// does: for tests of the protocol in wire/chunk.h without a launcher or a target.
#ifndef TBPROF_TESTS_UNIT_WIRE_SEGMENT_MAKER_H_
#define TBPROF_TESTS_UNIT_WIRE_SEGMENT_MAKER_H_

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "wire/chunk.h"
#include "wire/records.h"
#include "wire/segment.h"

#if defined(__SANITIZE_THREAD__)
#define TBPROF_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TBPROF_TEST_TSAN 1
#endif
#endif
#ifndef TBPROF_TEST_TSAN
#define TBPROF_TEST_TSAN 0
#endif

namespace tbprof {

// Shared and anonymous, so that fork children write into it. Any access outside of it faults.
class GuardedSegment {
 public:
  explicit GuardedSegment(uint32_t chunks) {
    bytes_ = RoundToPage(LayoutFor(chunks).bytes);
    whole_ = static_cast<uint8_t*>(
        mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (whole_ == MAP_FAILED || mprotect(whole_ + kPage, bytes_, PROT_READ | PROT_WRITE) != 0) {
      perror("segment");
      abort();
    }
    segment_ = SegmentAt(whole_ + kPage, chunks);
    InitialiseSegment(segment_, LayoutFor(chunks).bytes);
    segment_.header->clock_kind = static_cast<uint32_t>(ClockKind::kMonotonic);
  }
  GuardedSegment(const GuardedSegment&) = delete;
  GuardedSegment& operator=(const GuardedSegment&) = delete;
  ~GuardedSegment() { munmap(whole_, bytes_ + 2 * kPage); }

  const Segment& get() const { return segment_; }
  uint8_t* bytes() const { return whole_ + kPage; }
  size_t size() const { return bytes_; }

 private:
  uint8_t* whole_;
  size_t bytes_;
  Segment segment_;
};

// The content of a record is determined by its thread and its sequence number.
inline uint64_t Check(uint64_t thread, uint64_t sequence) {
  return (thread * 0x9e3779b97f4a7c15 ^ sequence) * 0xbf58476d1ce4e5b9;
}

struct NumberedWriter {
  Segment segment;
  ChunkWriter writer;
  uint64_t thread = 0;
  bool in_chunk = false;       // use BeginInChunk where it permits that
  uint64_t made_in_chunk = 0;  // number of records that BeginInChunk made

  // Takes thread slot `index`; process slot 0 is that of every process.
  NumberedWriter(const Segment& owner, uint32_t index, uint32_t process_serial = 1) : segment(owner), thread(index) {
    Register(index, process_serial);
  }

  // A fork child does this with the writer of its parent.
  void Register(uint32_t index, uint32_t process_serial) {
    ThreadSlot* slot = &segment.thread_slots[index];
    slot->serial = index + 1;
    slot->process_serial = process_serial;
    slot->tid = static_cast<int32_t>(1000 + index);
    slot->state = static_cast<uint32_t>(SlotState::kLive);
    ResetChunkWriter(&writer, slot, index, process_serial);
  }

  // A span with `extra` slots behind it. False: dropped.
  bool Write(uint64_t sequence, uint32_t extra = 0) {
    Reservation reservation;
    const uint32_t slots = 2 + extra;
    if (in_chunk && BeginInChunk(segment, &writer, slots, &reservation)) {
      ++made_in_chunk;
      Fill(reservation, sequence, extra);
      CommitInChunk(&writer, reservation,
                    TagWord(0, RecordKind::kSpan, 0, static_cast<uint16_t>(slots), static_cast<uint16_t>(thread)));
      return true;
    }
    if (!BeginRecord(segment, &writer, slots, &reservation)) return false;
    Fill(reservation, sequence, extra);
    CommitRecord(segment, &writer, reservation, RecordKind::kSpan, 0, static_cast<uint16_t>(thread));
    return true;
  }

  void Fill(const Reservation& reservation, uint64_t sequence, uint32_t extra) const {
    auto* span = reinterpret_cast<SpanRecord*>(reservation.slots);
    span->start = sequence;
    span->ticks = extra;
    span->object = thread;
    span->call_site = Check(thread, sequence);
    for (uint32_t i = 0; i < extra * 4; ++i) reservation.slots[8 + i] = Check(thread, sequence) + i;
  }

  uint64_t dropped() const { return writer.thread->dropped[kDropNoChunk] + writer.thread->dropped[kDropTooLong]; }
};

// Reads a segment like the drain, and checks and collects all that it reads.
class NumberedReader {
 public:
  explicit NumberedReader(const Segment& segment) : segment_(segment), readers_(segment.chunk_count) {}

  // True: something was read. `owner_gone`: the reader releases the chunks of an owner that has ended.
  bool Pass(bool owner_gone = false) {
    bool work = false;
    for (uint32_t i = 0; i < segment_.chunk_count; ++i) work |= ReadOne(i, owner_gone);
    return work;
  }

  // sequence numbers by thread, in the order read
  std::map<uint64_t, std::vector<uint64_t>> spans;
  uint64_t lost = 0;
  uint64_t wrong = 0;         // records with other content than a writer wrote
  uint64_t out_of_order = 0;  // within one chunk
  uint64_t records = 0;
  uint64_t pads = 0;

  uint64_t Count() const {
    uint64_t count = 0;
    for (const auto& [thread, sequences] : spans) count += sequences.size();
    return count;
  }

  // How many numbers of [0, count) are missing in a thread's spans, and how many spans are duplicates or out of range.
  std::pair<uint64_t, uint64_t> MissingAndExtra(uint64_t thread, uint64_t count) {
    std::vector<uint8_t> seen(count);
    uint64_t extra = 0, missing = 0;
    for (const uint64_t sequence : spans[thread]) {
      if (sequence >= count || seen[sequence]++ != 0) ++extra;
    }
    for (const uint8_t once : seen) missing += once == 0 ? 1 : 0;
    return {missing, extra};
  }

 private:
  bool ReadOne(uint32_t index, bool owner_gone) {
    bool work = false;
    ChunkReadResult read;
    while (ReadChunk(segment_, index, owner_gone, kSlotsPerChunk, &readers_[index], &read)) {
      lost += read.lost;
      if (read.first > kSlotsPerChunk || read.count > kSlotsPerChunk - read.first) {
        ++wrong;
        return work;
      }
      copy_.assign(segment_.Chunk(index) + static_cast<uint64_t>(read.first) * 4,
                   segment_.Chunk(index) + static_cast<uint64_t>(read.first + read.count) * 4);
      const bool freed = FinishChunk(segment_, index, read);
      if (read.count > 0) {
        work = true;
        Take(read);
      }
      if (freed || read.count == 0) break;
    }
    return work;
  }

  void Take(const ChunkReadResult& read) {
    uint32_t at = 0, records_here = 0;
    uint64_t last = 0;
    std::map<uint64_t, uint64_t> last_of_thread;
    while (at < read.count) {
      const uint64_t* slots = &copy_[static_cast<size_t>(at) * 4];
      Tag tag;
      memcpy(&tag, slots, sizeof(tag));
      ++records_here;
      if (tag.slots == 0 || tag.slots > read.count - at || tag.generation != read.generation) {
        ++wrong;
        return;
      }
      if (tag.kind == RecordKind::kSpan && tag.slots >= 2) {
        SpanRecord span;
        memcpy(&span, slots, sizeof(span));
        bool good =
            span.object == tag.aux && span.call_site == Check(span.object, span.start) && span.ticks == tag.slots - 2u;
        for (uint32_t i = 0; good && i < (tag.slots - 2u) * 4; ++i) good = slots[8 + i] == span.call_site + i;
        if (!good) ++wrong;
        const auto [before, first] = last_of_thread.try_emplace(span.object, span.start);
        if (!first && span.start <= before->second) ++out_of_order;
        before->second = span.start;
        spans[span.object].push_back(span.start);
      } else if (tag.kind == RecordKind::kPad) {
        ++pads;
      } else if (tag.kind == RecordKind::kChunkBegin) {
        if (at + read.first != 0) ++wrong;
      } else {
        ++wrong;
      }
      last = at;
      at += tag.slots;
    }
    (void)last;
    records += records_here;
    if (records_here != read.records) ++wrong;
  }

  Segment segment_;
  std::vector<ChunkReader> readers_;
  std::vector<uint64_t> copy_;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WIRE_SEGMENT_MAKER_H_
