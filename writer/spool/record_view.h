// SPDX-License-Identifier: Apache-2.0
//
// A record in a chunk frame, and typed access to it.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_SPOOL_RECORD_VIEW_H_
#define TBPROF_WRITER_SPOOL_RECORD_VIEW_H_

#include <cstdint>
#include <string_view>

#include "wire/compact_span.h"
#include "wire/records.h"

namespace tbprof {

inline bool IsSpan(RecordKind kind) { return kind == RecordKind::kSpan || kind == RecordKind::kCompactSpan; }

enum class RecordClass : uint8_t {
  kUnknown,   // a kind of another version
  kLayout,    // of the chunk itself
  kSpan,      // a call, with its times
  kTimed,     // an event at `ticks`, which are behind the tag
  kUntimed,   // a block or a sample of the allocator
  kGpu,       // with times of the GPU's clock
  kGpuClock,  // a pair of that clock and the session's
  kFact,      // of threads, processes, modules or devices; one in a part of the spool has a copy in the main file
};

namespace internal {
struct RecordRow {
  RecordClass of = RecordClass::kUnknown;
  uint8_t slots = 0;
};
struct RecordRows {
  RecordRow rows[256];
  constexpr RecordRows() {
#define TBPROF_RECORD(number, Name, fixed_slots, variable, Class) rows[number] = {RecordClass::k##Class, fixed_slots};
#include "wire/records.def"
#undef TBPROF_RECORD
  }
};
inline constexpr RecordRows kRecordRows;
}  // namespace internal

inline RecordClass ClassOf(RecordKind kind) { return internal::kRecordRows.rows[static_cast<uint8_t>(kind)].of; }
inline bool IsFact(RecordKind kind) { return ClassOf(kind) == RecordClass::kFact; }
// Slots of the fixed part; 0: a kind of another version.
inline uint32_t FixedSlots(RecordKind kind) { return internal::kRecordRows.rows[static_cast<uint8_t>(kind)].slots; }

// One record in a chunk frame: its tag and all its slots.
struct RecordView {
  Tag tag;
  const uint8_t* bytes;
  uint32_t size;

  template <typename Record>
  bool Read(Record* record) const {
    if (size < sizeof(Record)) return false;
    __builtin_memcpy(record, bytes, sizeof(Record));
    return true;
  }
  // Reads a span of either kind.
  bool ReadSpan(SpanRecord* span) const {
    if (tag.kind == RecordKind::kSpan) return Read(span);
    CompactSpanRecord compact;
    if (tag.kind != RecordKind::kCompactSpan || !Read(&compact)) return false;
    UnpackSpan(compact, span);
    return true;
  }
  // Variable part behind a fixed part of `fixed` bytes, at most `length` bytes of it.
  std::string_view Text(uint32_t fixed, uint64_t length) const {
    if (size <= fixed) return {};
    const uint64_t room = size - fixed;
    return {reinterpret_cast<const char*>(bytes) + fixed, static_cast<size_t>(length < room ? length : room)};
  }
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_RECORD_VIEW_H_
