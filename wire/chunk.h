// SPDX-License-Identifier: Apache-2.0
//
// Chunks carry records from a thread to the launcher without a lock, a wait or a system call.
//
// A thread owns one chunk at a time, claimed by compare-and-swap on its state word. It reserves slots by an unlocked
// add on a word of its own, fills them in, and stores the record's tag last. When a chunk is full its owner marks it
// and claims another; the launcher reads owned and full chunks alike, and frees the full ones. If none is free, the
// record is dropped and counted.
//
//   Reservation reservation;
//   if (BeginRecord(segment, &writer, 2, &reservation)) {
//     auto* span = reinterpret_cast<SpanRecord*>(reservation.slots);
//     span->start = ...;
//     CommitRecord(segment, &writer, reservation, RecordKind::kSpan, 0, operation);
//   }
//
// Invariants: a process that is killed anywhere leaves at most one unfinished record per thread and signal level; a
// signal handler that records between BeginRecord and CommitRecord has its own slots; a chunk with an interrupted,
// unfinished record is not released before that record is finished. If a signal handler forks, the child also returns
// into the interrupted function, where the current chunk is the parent's: the child then writes only what the parent
// also writes there, and nothing once the chunk has a new generation.
//
// Process: ChunkWriter in the target, any thread (one writer each), any signal handler. ChunkReader in the launcher's
// drain thread, one per chunk. No allocation.
#ifndef TBPROF_WIRE_CHUNK_H_
#define TBPROF_WIRE_CHUNK_H_

#include <stdint.h>
#include <string.h>

#include "wire/clock.h"
#include "wire/segment.h"

namespace tbprof {

// ---------------------------------------------------------------------------------------------------- writing

struct ChunkWriter {
  // generation:16 | chunk index:16 | next free slot:32, in one word so that one instruction reserves in a known chunk.
  uint64_t cursor;
  ThreadSlot* thread;
  uint32_t thread_index;
  uint32_t process_serial;
  uint32_t depth;    // records begun and not committed: more than 1 only in signal handlers
  uint32_t starved;  // records to drop before the chunk states are scanned again
  // Chunks retired with an unfinished record in them, the latest in the lowest 16 bits, each as its index + 1. One
  // word, so that a signal handler sees it before or after each change.
  uint64_t pending;
};
static_assert(kMaxChunks < 65535);

// The cursor without a chunk: generation 0, and full, so that every reservation takes the slow path. It contains the
// process serial, so that an interrupted Claim of the parent never finds the cursor that it expects in a fork child.
inline constexpr uint64_t NoChunk(uint32_t process_serial) {
  return static_cast<uint64_t>(process_serial & 0xffff) << 32 | kSlotsPerChunk;
}
inline constexpr uint16_t kStarvedSkip = 256;

struct Reservation {
  uint64_t* slots;
  uint16_t generation;
  uint16_t slot_count;
  uint32_t depth_before;
  uint32_t process_serial;
};

inline void ResetChunkWriter(ChunkWriter* writer, ThreadSlot* thread, uint32_t thread_index, uint32_t process_serial) {
  // Member by member: memset is in a page of libc that a fork child may not have mapped.
  writer->cursor = NoChunk(process_serial);
  writer->thread = thread;
  writer->thread_index = thread_index;
  writer->process_serial = process_serial;
  writer->depth = 0;
  writer->starved = 0;
  writer->pending = 0;
}

inline constexpr uint64_t TagWord(uint16_t generation, RecordKind kind, uint8_t flags, uint16_t slots, uint16_t aux) {
  return static_cast<uint64_t>(generation) | static_cast<uint64_t>(kind) << 16 | static_cast<uint64_t>(flags) << 24 |
         static_cast<uint64_t>(slots) << 32 | static_cast<uint64_t>(aux) << 48;
}

namespace chunk_internal {

// `generation` 0: any generation. Otherwise only a chunk of this generation, which is its owner's, is marked as full.
inline void MarkFull(const Segment& segment, uint16_t index, uint16_t generation) {
  uint64_t word = __atomic_load_n(&segment.chunk_states[index], __ATOMIC_RELAXED);
  if (StateOfChunk(word) != ChunkState::kOwned || (generation != 0 && GenerationOfChunk(word) != generation)) return;
  const uint64_t full = ChunkWord(ChunkState::kFull, GenerationOfChunk(word), ThreadSlotOfChunk(word));
  __atomic_compare_exchange_n(&segment.chunk_states[index], &word, full, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

inline uint32_t ProcessNow(const ChunkWriter* writer) {
  return *const_cast<const volatile uint32_t*>(&writer->process_serial);
}

// Marks the rest of the chunk that `cursor` names as unused, from the slot that it names.
inline void PadRest(const Segment& segment, uint64_t cursor) {
  const uint32_t at = static_cast<uint32_t>(cursor);
  if (at >= kSlotsPerChunk) return;
  __atomic_store_n(
      segment.Chunk(static_cast<uint16_t>(cursor >> 32)) + static_cast<uint64_t>(at) * (kSlotBytes / 8),
      TagWord(static_cast<uint16_t>(cursor >> 48), RecordKind::kPad, 0, static_cast<uint16_t>(kSlotsPerChunk - at), 0),
      __ATOMIC_RELEASE);
}

// Whether every record of this thread's chunk is finished.
inline bool IsFinished(const Segment& segment, uint16_t index) {
  const uint16_t generation = GenerationOfChunk(__atomic_load_n(&segment.chunk_states[index], __ATOMIC_RELAXED));
  const uint64_t* chunk = segment.Chunk(index);
  uint32_t at = 0;
  while (at < kSlotsPerChunk) {
    const uint64_t tag = __atomic_load_n(chunk + static_cast<uint64_t>(at) * (kSlotBytes / 8), __ATOMIC_RELAXED);
    const uint32_t slots = static_cast<uint16_t>(tag >> 32);
    if (static_cast<uint16_t>(tag) != generation || slots == 0) return false;
    at += slots;
  }
  return true;
}

// Reserves the next slots of the chunk that the cursor names. *process_serial: the process to which the slots belong.
inline uint64_t Reserve(ChunkWriter* writer, uint32_t slots, uint32_t* process_serial) {
  for (;;) {
    const uint32_t before = ProcessNow(writer);
    *process_serial = before;
    SignalFence();
    const uint64_t reserved = FetchAddThisThread(&writer->cursor, slots);
    const uint32_t now = ProcessNow(writer);
    if (__builtin_expect(now == before, 1)) return reserved;
    // A signal handler has forked in between, and this is the child. If it forked before the addition, the slots are
    // the child's; if it forked after the addition, they are the parent's.
    *process_serial = now;
    if (reserved >> 32 == *const_cast<volatile uint64_t*>(&writer->cursor) >> 32) return reserved;
  }
}

inline void Retire(const Segment& segment, ChunkWriter* writer, uint16_t index, uint16_t generation) {
  // An interrupted, unfinished record may be in this chunk: then the outermost record releases the chunk when it
  // commits. After a longjmp out of a record `depth` stays above 0; then only a chunk that contains that record is
  // kept.
  if (writer->depth <= 1 || IsFinished(segment, index)) {
    MarkFull(segment, index, generation);
    return;
  }
  for (;;) {
    const uint64_t before = *const_cast<volatile uint64_t*>(&writer->pending);
    if (!CompareExchangeThisThread(&writer->pending, before, before << 16 | (index + 1u))) continue;
    // There is no room for a fifth chunk. Records do not nest over four chunks, so a longjmp has abandoned the record
    // in the oldest one.
    if ((before >> 48) != 0) MarkFull(segment, static_cast<uint16_t>((before >> 48) - 1), 0);
    return;
  }
}

// Call this when no record of this thread is unfinished.
inline void RetirePending(const Segment& segment, ChunkWriter* writer) {
  for (;;) {
    const uint64_t before = *const_cast<volatile uint64_t*>(&writer->pending);
    if (before == 0) return;
    if (!CompareExchangeThisThread(&writer->pending, before, before >> 16)) continue;
    MarkFull(segment, static_cast<uint16_t>((before & 0xffff) - 1), 0);
  }
}

// Makes writer->cursor name a fresh chunk; false if none is free.
inline bool Claim(const Segment& segment, ChunkWriter* writer) {
  SegmentHeader* header = segment.header;
  // Read before the chunk is claimed: a fork child that returns into the middle of this function writes the same values
  // to the parent's chunk once more, and never different ones.
  const uint32_t process_serial = ProcessNow(writer);
  const uint32_t thread_serial = writer->thread->serial;
  const uint32_t thread_index = writer->thread_index;
  const int32_t pid = segment.process_slots[writer->thread->process_slot].pid;
  const int32_t tid = writer->thread->tid;
  const uint64_t ticks = ReadTicks(static_cast<ClockKind>(header->clock_kind));
  SignalFence();
  uint32_t at = __atomic_load_n(&header->chunk_hint, __ATOMIC_RELAXED);
  for (uint32_t tried = 0; tried < segment.chunk_count; ++tried, ++at) {
    if (at >= segment.chunk_count) at = 0;
    uint64_t word = __atomic_load_n(&segment.chunk_states[at], __ATOMIC_RELAXED);
    if (StateOfChunk(word) != ChunkState::kFree) continue;
    uint16_t generation = static_cast<uint16_t>(GenerationOfChunk(word) + 1);
    if (generation == 0) generation = 1;
    // If a signal handler forks between here and the exchange, the child claims a chunk for a thread that it does not
    // have. The chunk is freed when the parent has ended.
    if (ProcessNow(writer) != process_serial) return true;
    if (!__atomic_compare_exchange_n(&segment.chunk_states[at], &word,
                                     ChunkWord(ChunkState::kOwned, generation, thread_index), false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    __atomic_store_n(&header->chunk_hint, at + 1, __ATOMIC_RELAXED);
    uint32_t high = __atomic_load_n(&header->chunk_high, __ATOMIC_RELAXED);
    while (high < at + 1 &&
           !__atomic_compare_exchange_n(&header->chunk_high, &high, at + 1, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    if (ProcessNow(writer) != process_serial) return true;
    auto* begin = reinterpret_cast<ChunkBeginRecord*>(segment.Chunk(at));
    // A read makes the kernel map all existing pages of the chunk, a write maps only this page, which is enough for a
    // thread or a fork child with a few records.
    if (writer->thread->records > 0) *reinterpret_cast<const volatile uint64_t*>(begin);
    begin->process_serial = process_serial;
    begin->thread_serial = thread_serial;
    begin->pid = pid;
    begin->tid = tid;
    begin->ticks = ticks;
    __atomic_store_n(reinterpret_cast<uint64_t*>(begin), TagWord(generation, RecordKind::kChunkBegin, 0, 1, 0),
                     __ATOMIC_RELEASE);
    const uint64_t fresh = static_cast<uint64_t>(generation) << 48 | static_cast<uint64_t>(at) << 32 | 1;
    if (CompareExchangeThisThread(&writer->cursor, NoChunk(process_serial), fresh)) return true;
    if (ProcessNow(writer) != process_serial) return true;
    // A signal handler has installed a chunk meanwhile: use that one, and let the launcher free this one.
    MarkFull(segment, static_cast<uint16_t>(at), generation);
    return true;
  }
  return false;
}

// The reservation `*reserved` by `*process_serial` did not fit. Replaces it by one that fits.
inline __attribute__((noinline)) bool BeginSlow(const Segment& segment, ChunkWriter* writer, uint32_t slots,
                                                uint32_t* process_serial, uint64_t* reserved) {
  for (;;) {
    // If this is a fork child by now, there is no chunk to release.
    if (ProcessNow(writer) == *process_serial) {
      if ((*reserved >> 48) != 0) {
        const uint16_t index = static_cast<uint16_t>(*reserved >> 32);
        PadRest(segment, *reserved);
        for (;;) {
          const uint64_t now = *const_cast<volatile uint64_t*>(&writer->cursor);
          if ((now >> 32) != (*reserved >> 32)) break;
          if (CompareExchangeThisThread(&writer->cursor, now, NoChunk(*process_serial))) {
            Retire(segment, writer, index, static_cast<uint16_t>(*reserved >> 48));
            break;
          }
        }
      } else {
        // Reservations without a chunk have moved the cursor's slot number; reset it before it can overflow.
        const uint64_t now = *const_cast<volatile uint64_t*>(&writer->cursor);
        if (now >> 32 == NoChunk(*process_serial) >> 32) {
          CompareExchangeThisThread(&writer->cursor, now, NoChunk(*process_serial));
        }
      }
    }
    if ((*const_cast<volatile uint64_t*>(&writer->cursor) >> 48) == 0) {
      if (writer->starved > 0) {
        --writer->starved;
        return false;
      }
      if (!Claim(segment, writer)) {
        writer->starved = kStarvedSkip;
        return false;
      }
    }
    *reserved = Reserve(writer, slots, process_serial);
    if (static_cast<uint32_t>(*reserved) + slots <= kSlotsPerChunk) return true;
  }
}

}  // namespace chunk_internal

// Reserves `slots` slots. False: dropped and counted; nothing to commit.
inline bool BeginRecord(const Segment& segment, ChunkWriter* writer, uint32_t slots, Reservation* reservation) {
  const uint32_t depth_before = writer->depth;
  writer->depth = depth_before + 1;
  SignalFence();
  if (__builtin_expect(slots >= kSlotsPerChunk, 0)) {
    ++writer->thread->dropped[kDropTooLong];
    writer->depth = depth_before;
    return false;
  }
  uint32_t process_serial;
  uint64_t reserved = chunk_internal::Reserve(writer, slots, &process_serial);
  if (__builtin_expect(static_cast<uint32_t>(reserved) + slots > kSlotsPerChunk, 0)) {
    // Copies for the slow path, so that the fast path keeps the originals in registers.
    uint32_t slow_serial = process_serial;
    uint64_t slow_reserved = reserved;
    if (!chunk_internal::BeginSlow(segment, writer, slots, &slow_serial, &slow_reserved)) {
      ++writer->thread->dropped[kDropNoChunk];
      if (depth_before == 0) chunk_internal::RetirePending(segment, writer);
      writer->depth = depth_before;
      return false;
    }
    process_serial = slow_serial;
    reserved = slow_reserved;
  }
  reservation->depth_before = depth_before;
  reservation->process_serial = process_serial;
  reservation->slots = segment.Chunk(static_cast<uint16_t>(reserved >> 32)) +
                       static_cast<uint64_t>(static_cast<uint32_t>(reserved)) * (kSlotBytes / 8);
  reservation->generation = static_cast<uint16_t>(reserved >> 48);
  reservation->slot_count = static_cast<uint16_t>(slots);
  return true;
}

// Reserves `slots` slots if the current chunk has room for them. False: nothing was done or counted; use BeginRecord.
// The caller can do that in a tail call, so that it needs no stack frame for the rare case.
inline bool BeginInChunk(const Segment& segment, ChunkWriter* writer, uint32_t slots, Reservation* reservation) {
  const uint64_t cursor = *const_cast<const volatile uint64_t*>(&writer->cursor);
  if (__builtin_expect(static_cast<uint32_t>(cursor) + slots > kSlotsPerChunk || writer->pending != 0, 0)) return false;
  const uint32_t depth_before = writer->depth;
  reservation->process_serial = chunk_internal::ProcessNow(writer);
  writer->depth = depth_before + 1;
  SignalFence();
  // The exchange fails after a signal handler that recorded, and in a child that a handler forked: the child's cursor
  // does not name this chunk.
  if (__builtin_expect(!CompareExchangeThisThread(&writer->cursor, cursor, cursor + slots), 0)) {
    writer->depth = depth_before;
    return false;
  }
  reservation->depth_before = depth_before;
  reservation->slots = segment.Chunk(static_cast<uint16_t>(cursor >> 32)) +
                       static_cast<uint64_t>(static_cast<uint32_t>(cursor)) * (kSlotBytes / 8);
  reservation->generation = static_cast<uint16_t>(cursor >> 48);
  reservation->slot_count = static_cast<uint16_t>(slots);
  return true;
}

// Commits the record that BeginInChunk began. `tag`: TagWord of generation 0. A chunk that a signal handler has left
// pending meanwhile is retired with this thread's next record, which BeginInChunk then refuses; the launcher reads the
// chunk before.
inline void CommitInChunk(ChunkWriter* writer, const Reservation& reservation, uint64_t tag) {
  if (__builtin_expect(writer->process_serial == reservation.process_serial, 1)) {
    __atomic_store_n(reservation.slots, tag | reservation.generation, __ATOMIC_RELEASE);
    ++writer->thread->records;
  }
  SignalFence();
  writer->depth = reservation.depth_before;
}

inline void CommitRecord(const Segment& segment, ChunkWriter* writer, const Reservation& reservation, RecordKind kind,
                         uint8_t flags, uint16_t aux) {
  // If a signal handler has forked, the child returns here, too, with a slot of the parent's.
  if (__builtin_expect(writer->process_serial == reservation.process_serial, 1)) {
    __atomic_store_n(reservation.slots, TagWord(reservation.generation, kind, flags, reservation.slot_count, aux),
                     __ATOMIC_RELEASE);
    ++writer->thread->records;
    SignalFence();
    if (__builtin_expect(writer->pending != 0, 0) && reservation.depth_before == 0) {
      chunk_internal::RetirePending(segment, writer);
    }
  }
  SignalFence();
  writer->depth = reservation.depth_before;
}

// Releases the current chunk and the chunks with abandoned records, at the end of a thread.
inline void ReleaseChunk(const Segment& segment, ChunkWriter* writer) {
  chunk_internal::RetirePending(segment, writer);
  const uint64_t now = writer->cursor;
  if ((now >> 48) == 0) return;
  if (CompareExchangeThisThread(&writer->cursor, now, NoChunk(writer->process_serial))) {
    chunk_internal::PadRest(segment, now);
    chunk_internal::MarkFull(segment, static_cast<uint16_t>(now >> 32), static_cast<uint16_t>(now >> 48));
  }
}

// ---------------------------------------------------------------------------------------------------- reading

struct ChunkReader {
  uint16_t generation;
  uint32_t next;  // first slot not yet taken
};

struct ChunkReadResult {
  uint16_t generation;
  uint32_t first;  // slots [first, first + count) hold finished records, one after the other
  uint32_t count;
  uint32_t content;  // `count` without a pad at the end
  uint32_t lost;     // unfinished or invalid records that were skipped
  uint32_t records;
  uint32_t used;  // slots that the owner may have touched; zeroed when the chunk is freed
  bool freed;
};

// Whether `word` can be the tag of a record with `generation` at `slot`. Everything in a chunk may be corrupt.
inline bool IsTag(uint64_t word, uint16_t generation, uint32_t slot) {
  const uint32_t slots = static_cast<uint16_t>(word >> 32);
  const uint32_t kind = static_cast<uint8_t>(word >> 16);
  return static_cast<uint16_t>(word) == generation && slots > 0 && slot + slots <= kSlotsPerChunk && kind != 0;
}

// Finds the new records in chunk `index`. `owner_gone`: the owner cannot write any more, so unfinished records are
// skipped. `limit`: slots from here on are known to be unwritten; reading them would allocate their pages. The caller
// copies the slots, then calls FinishChunk. False: nothing is new, and there is nothing to finish.
inline bool ReadChunk(const Segment& segment, uint32_t index, bool owner_gone, uint32_t limit, ChunkReader* reader,
                      ChunkReadResult* result) {
  // The state is read before the slots: in a chunk that is full by then, every record is finished.
  const uint64_t word = __atomic_load_n(&segment.chunk_states[index], __ATOMIC_ACQUIRE);
  const ChunkState state = StateOfChunk(word);
  if (state != ChunkState::kOwned && state != ChunkState::kFull) return false;
  const bool closed = state == ChunkState::kFull || owner_gone;
  const uint16_t generation = GenerationOfChunk(word);
  if (reader->generation != generation) {
    reader->generation = generation;
    reader->next = 0;
  }
  result->generation = generation;
  result->lost = 0;
  result->records = 0;
  result->freed = closed;
  const uint64_t* chunk = segment.Chunk(index);
  uint32_t at = reader->next;
  result->used = at;
  // A closed chunk may have a hole here: a slot in which a dead thread was writing or a longjmp abandoned a record, or
  // the unused rest of a dead thread's chunk. Search for the next record.
  if (closed && at < kSlotsPerChunk) {
    const uint32_t hole = at;
    while (at < limit && !IsTag(__atomic_load_n(chunk + static_cast<uint64_t>(at) * (kSlotBytes / 8), __ATOMIC_ACQUIRE),
                                generation, at)) {
      ++at;
    }
    if (at != hole) {
      // Freed chunks are zeroed, so content without a tag is an unfinished record.
      const uint64_t* slot = chunk + static_cast<uint64_t>(hole) * (kSlotBytes / 8);
      const bool begun = (__atomic_load_n(slot + 1, __ATOMIC_RELAXED) | __atomic_load_n(slot + 2, __ATOMIC_RELAXED) |
                          __atomic_load_n(slot + 3, __ATOMIC_RELAXED)) != 0;
      if (at < limit || begun) result->lost = 1;
      if (at == limit) result->used = limit;
    }
    if (at >= limit) at = kSlotsPerChunk;
  }
  result->first = at;
  result->content = 0;
  while (at < limit) {
    const uint64_t tag = __atomic_load_n(chunk + static_cast<uint64_t>(at) * (kSlotBytes / 8), __ATOMIC_ACQUIRE);
    if (!IsTag(tag, generation, at)) break;
    const bool is_pad = static_cast<uint8_t>(tag >> 16) == static_cast<uint8_t>(RecordKind::kPad);
    const uint32_t next = at + static_cast<uint16_t>(tag >> 32);
    // The slots of a pad were never written; reading or zeroing them would only allocate their pages.
    result->used = is_pad ? at + 1 : next;
    result->content = (is_pad ? at : next) - result->first;
    at = next;
    ++result->records;
  }
  result->count = at - result->first;
  // Records may follow after a hole: the caller reads the same chunk again.
  if (closed && at < kSlotsPerChunk && result->count > 0) result->freed = false;
  reader->next = at;
  return result->count > 0 || closed;
}

// Call this after the slots were copied. Frees the chunk if it is closed and completely read; true if it was freed.
inline bool FinishChunk(const Segment& segment, uint32_t index, const ChunkReadResult& result) {
  if (!result.freed) return false;
  // Content of an earlier use must never be taken for a record of a later use.
  memset(segment.Chunk(index), 0, static_cast<uint64_t>(result.used) * kSlotBytes);
  __atomic_store_n(&segment.chunk_states[index], ChunkWord(ChunkState::kFree, result.generation, 0), __ATOMIC_RELEASE);
  // Low chunks first: few pages stay in use while the launcher keeps up.
  uint32_t hint = __atomic_load_n(&segment.header->chunk_hint, __ATOMIC_RELAXED);
  while (index < hint && !__atomic_compare_exchange_n(&segment.header->chunk_hint, &hint, index, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
  return true;
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_CHUNK_H_
