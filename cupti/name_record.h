// SPDX-License-Identifier: Apache-2.0
//
// GpuName records: the names for which numbers stand in other records.
//
// Process: target, any thread with a writer. No allocation.
#ifndef TBPROF_CUPTI_NAME_RECORD_H_
#define TBPROF_CUPTI_NAME_RECORD_H_

#include <stdint.h>

#include "wire/chunk.h"
#include "wire/records.h"

namespace tbprof::cupti {

// Longer names are truncated: a demangled template can fill pages. The record keeps the length that was given.
inline constexpr uint32_t kMaxName = 4096;

// False: no room.
inline bool RecordName(const Segment& segment, ChunkWriter* writer, GpuNameKind kind, uint64_t id, const char* text,
                       uint32_t length) {
  const uint32_t kept = length < kMaxName ? length : kMaxName;
  Reservation reservation;
  if (!BeginRecord(segment, writer, 1 + SlotsFor(kept), &reservation)) return false;
  auto* record = reinterpret_cast<GpuNameRecord*>(reservation.slots);
  record->id = id;
  record->text_length = length;
  record->reserved = 0;
  __builtin_memcpy(record + 1, text, kept);
  CommitRecord(segment, writer, reservation, RecordKind::kGpuName, 0, static_cast<uint16_t>(kind));
  return true;
}

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_NAME_RECORD_H_
