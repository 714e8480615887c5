// SPDX-License-Identifier: Apache-2.0
//
// Packs a span into a CompactSpan record and unpacks it.
//
// Process: target (packs), launcher and converter (unpack). Pure functions.
#ifndef TBPROF_WIRE_COMPACT_SPAN_H_
#define TBPROF_WIRE_COMPACT_SPAN_H_

#include <stdint.h>

#include "wire/records.h"

namespace tbprof {

inline bool FitsCompactSpan(uint64_t start, uint64_t ticks, uint64_t object, uint64_t call_site, int64_t result,
                            int32_t error) {
  const uint64_t outcome = error == 0 ? static_cast<uint64_t>(result) : static_cast<uint32_t>(error);
  const bool follows = error == 0 || result == -1 || result == error;
  return follows &&
         (start >> kCompactStartBits | ticks >> 32 | (object | call_site) >> kCompactWordBits | outcome >> 8) == 0;
}

// Packs a span that fits. Returns the record's flags.
inline uint8_t PackSpan(CompactSpanRecord* record, uint64_t start, uint64_t ticks, uint64_t object, uint64_t call_site,
                        int64_t result, int32_t error) {
  const uint64_t outcome = error == 0 ? static_cast<uint64_t>(result) : static_cast<uint32_t>(error);
  record->start = start | outcome << kCompactStartBits;
  record->object = object | ticks << kCompactWordBits;
  record->call_site = call_site | ticks >> 16 << kCompactWordBits;
  if (error == 0) return 0;
  return result == error ? kRecordFailed | kRecordErrorReturned : kRecordFailed;
}

// Writes in place: a returned struct is copied in wider pieces than it was written in, and each piece waits for its
// parts.
inline void UnpackSpan(const CompactSpanRecord& record, SpanRecord* span) {
  constexpr uint64_t kWord = (uint64_t{1} << kCompactWordBits) - 1;
  span->tag = record.tag;
  span->start = record.start & ((uint64_t{1} << kCompactStartBits) - 1);
  span->ticks = record.object >> kCompactWordBits | record.call_site >> kCompactWordBits << 16;
  span->object = record.object & kWord;
  span->call_site = record.call_site & kWord;
  const auto outcome = static_cast<uint8_t>(record.start >> kCompactStartBits);
  const bool failed = (record.tag.flags & kRecordFailed) != 0;
  span->error = failed ? outcome : 0;
  span->result = failed && (record.tag.flags & kRecordErrorReturned) == 0 ? -1 : outcome;
  span->python_stack = 0;
  span->reserved1 = 0;
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_COMPACT_SPAN_H_
