// SPDX-License-Identifier: Apache-2.0
//
// A record as it lies in a chunk frame, and its typed reading.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_SPOOL_RECORD_VIEW_H_
#define TBPROF_WRITER_SPOOL_RECORD_VIEW_H_

#include <cstdint>
#include <string_view>

#include "wire/records.h"

namespace tbprof {

inline bool IsSpan(RecordKind kind) { return kind == RecordKind::kSpan || kind == RecordKind::kCompactSpan; }

// Whether it has facts of threads, processes, modules or devices, which must stay when a part of the spool is dropped:
// of those in a part, a copy is in the main file.
inline bool IsFact(RecordKind kind) {
  switch (kind) {
    case RecordKind::kThreadStart:
    case RecordKind::kThreadExit:
    case RecordKind::kThreadName:
    case RecordKind::kProcessInfo:
    case RecordKind::kModule:
    case RecordKind::kExec:
    case RecordKind::kGpuDevice:
    case RecordKind::kGpuContext:
    case RecordKind::kGpuName:
    case RecordKind::kGpuInfo:
    case RecordKind::kAnnotationName:
      return true;
    case RecordKind::kPad:
    case RecordKind::kChunkBegin:
    case RecordKind::kSpan:
    case RecordKind::kCompactSpan:
    case RecordKind::kAllocationSample:
    case RecordKind::kAllocation:
    case RecordKind::kGpuKernel:
    case RecordKind::kGpuCopy:
    case RecordKind::kGpuApi:
    case RecordKind::kGpuSpan:
    case RecordKind::kGpuMemory:
    case RecordKind::kGpuUnifiedMemory:
    case RecordKind::kGpuGraphNode:
    case RecordKind::kGpuClock:
    case RecordKind::kAnnotation:
    case RecordKind::kTensorMemory:
      return false;
  }
  return false;
}

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
  // Of either kind of span.
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
