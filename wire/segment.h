// SPDX-License-Identifier: Apache-2.0
//
// A mapped segment: pointers to its parts, and the check that a mapping is a segment.
//
// Process: target and launcher. No allocation, no system call.
#ifndef TBPROF_WIRE_SEGMENT_H_
#define TBPROF_WIRE_SEGMENT_H_

#include <stdint.h>

#include "wire/layout.h"
#include "wire/records.h"

namespace tbprof {

struct Segment {
  SegmentHeader* header;
  Operation* operations;
  ProcessSlot* process_slots;
  ThreadSlot* thread_slots;
  uint64_t* chunk_states;
  uint8_t* chunks;
  uint32_t chunk_count;  // copied once: later changes in the header are ignored

  uint64_t* Chunk(uint32_t index) const {
    return reinterpret_cast<uint64_t*>(chunks + static_cast<uint64_t>(index) * kChunkBytes);
  }
};

inline Segment SegmentAt(void* base, uint32_t chunk_count) {
  const SegmentLayout layout = LayoutFor(chunk_count);
  auto* bytes = static_cast<uint8_t*>(base);
  Segment segment;
  segment.header = reinterpret_cast<SegmentHeader*>(bytes);
  segment.operations = reinterpret_cast<Operation*>(bytes + layout.operations);
  segment.process_slots = reinterpret_cast<ProcessSlot*>(bytes + layout.process_slots);
  segment.thread_slots = reinterpret_cast<ThreadSlot*>(bytes + layout.thread_slots);
  segment.chunk_states = reinterpret_cast<uint64_t*>(bytes + layout.chunk_states);
  segment.chunks = bytes + layout.chunks;
  segment.chunk_count = chunk_count;
  return segment;
}

// Fills in a zeroed mapping. The magic is stored last.
inline void InitialiseSegment(const Segment& segment, uint64_t segment_bytes) {
  SegmentHeader* header = segment.header;
  const SegmentLayout layout = LayoutFor(segment.chunk_count);
  header->abi = kAbiVersion;
  header->header_bytes = sizeof(SegmentHeader);
  header->slot_bytes = kSlotBytes;
  header->chunk_bytes = kChunkBytes;
  header->operation_bytes = sizeof(Operation);
  header->process_slot_bytes = sizeof(ProcessSlot);
  header->thread_slot_bytes = sizeof(ThreadSlot);
  header->process_slot_count = kProcessSlots;
  header->thread_slot_count = kThreadSlots;
  header->chunk_count = segment.chunk_count;
  header->segment_bytes = segment_bytes;
  header->operations_offset = layout.operations;
  header->process_slots_offset = layout.process_slots;
  header->thread_slots_offset = layout.thread_slots;
  header->chunk_states_offset = layout.chunk_states;
  header->chunks_offset = layout.chunks;
  header->next_process_serial = 1;
  header->next_thread_serial = 1;
  __atomic_store_n(&header->magic, kSegmentMagic, __ATOMIC_RELEASE);
}

enum class SegmentFault { kNone, kSize, kMagic, kAbi, kLayout };

// Whether `header`, a private copy, describes a segment of this build that fills `mapped_bytes` exactly.
inline SegmentFault CheckSegmentHeader(const SegmentHeader& header, uint64_t mapped_bytes) {
  if (mapped_bytes < sizeof(SegmentHeader)) return SegmentFault::kSize;
  if (header.magic != kSegmentMagic) return SegmentFault::kMagic;
  if (header.abi != kAbiVersion) return SegmentFault::kAbi;
  if (header.chunk_count < kMinChunks || header.chunk_count > kMaxChunks) return SegmentFault::kLayout;
  const SegmentLayout layout = LayoutFor(header.chunk_count);
  if (layout.bytes != mapped_bytes || header.segment_bytes != mapped_bytes) return SegmentFault::kSize;
  if (header.header_bytes != sizeof(SegmentHeader) || header.slot_bytes != kSlotBytes ||
      header.chunk_bytes != kChunkBytes || header.operation_bytes != sizeof(Operation) ||
      header.process_slot_bytes != sizeof(ProcessSlot) || header.thread_slot_bytes != sizeof(ThreadSlot) ||
      header.process_slot_count != kProcessSlots || header.thread_slot_count != kThreadSlots ||
      header.operation_count > kMaxOperations || header.operations_offset != layout.operations ||
      header.process_slots_offset != layout.process_slots || header.thread_slots_offset != layout.thread_slots ||
      header.chunk_states_offset != layout.chunk_states || header.chunks_offset != layout.chunks) {
    return SegmentFault::kLayout;
  }
  return SegmentFault::kNone;
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_SEGMENT_H_
