// SPDX-License-Identifier: Apache-2.0
//
// Summarizes a chunk frame whose records only contain what happened when. The launcher makes the summary while the
// chunk is in its cache, and stores it behind the slots. The converter's first pass then skips the slots.
//
//   ChunkSummarizer summarizer(chunk, chunk.taken_ticks);
//   for each record: summarizer.Take(record);
//   if (summarizer.whole()) ... summarizer.summary() ...   // else there are records that have to be read
//
// Process: launcher (drain thread), converter. Allocates nothing.
#ifndef TBPROF_WRITER_SPOOL_CHUNK_SUMMARY_H_
#define TBPROF_WRITER_SPOOL_CHUNK_SUMMARY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "wire/layout.h"
#include "wire/records.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool.h"

namespace tbprof {

// At least ten seconds: a valid time of a record is never so far from the other times.
inline constexpr uint64_t kPlausibleTicks = 40'000'000'000;
// Returns whether `ticks` is so much later than the launcher's `latest` time that the record must be corrupt.
inline bool IsFarBehind(uint64_t ticks, uint64_t latest) { return ticks > latest && ticks - latest > kPlausibleTicks; }

class ChunkSummarizer {
 public:
  // `latest`: the latest time of the launcher.
  ChunkSummarizer(const ChunkFact& chunk, uint64_t latest)
      : limit_(latest + std::min(kPlausibleTicks, UINT64_MAX - latest)) {
    summary_.chunk = chunk;
  }

  // False: the record has to be read.
  bool Take(const RecordView& record) {
    SpanRecord span;
    if (record.ReadSpan(&span)) {
      TakeSpan(record.tag, span);
      return true;
    }
    const bool taken = Add(record);
    whole_ &= taken;
    return taken;
  }
  // Takes a span that record.ReadSpan has read. Most records are spans, and this is the only work for each of them.
  void TakeSpan(const Tag& tag, const SpanRecord& span) {
    const uint64_t end = span.start + span.ticks;
    ++records_;
    if (end < span.start) return;
    ++spans_;
    At(end);
    // Many calls of one operation often fail in a row. Each would wait for the previous write of the bit, which would
    // take longest here.
    if ((tag.flags & kRecordFailed) == 0 || tag.aux == last_failed_ || tag.aux >= kMaxOperations) return;
    last_failed_ = tag.aux;
    summary_.failed[tag.aux / 64] |= uint64_t{1} << tag.aux % 64;
  }

  bool whole() const { return whole_; }
  ChunkSummary summary() const {
    ChunkSummary summary = summary_;
    summary.records = records_;
    summary.spans = spans_;
    summary.last_ticks = last_ticks_;
    return summary;
  }

 private:
  bool Add(const RecordView& record) {
    const RecordClass of = ClassOf(record.tag.kind);
    switch (of) {
      case RecordClass::kLayout:
        if (record.tag.kind == RecordKind::kPad) return true;
        whole_ &= summary_.begin.tag.slots == 0;
        return record.Read(&summary_.begin);
      case RecordClass::kTimed:
      case RecordClass::kUntimed:
      case RecordClass::kGpu:
        break;
      case RecordClass::kUnknown:
      case RecordClass::kSpan:
      case RecordClass::kGpuClock:
      case RecordClass::kFact:
        return false;
    }
    // Times of a GPU's clock cannot be converted yet.
    if (of == RecordClass::kGpu) summary_.gpu = 1;
    if (record.size < FixedSlots(record.tag.kind) * kSlotBytes) return false;
    ++records_;
    Timed timed;
    if (of != RecordClass::kTimed || !record.Read(&timed)) return true;
    At(timed.ticks);
    if (record.tag.kind == RecordKind::kAnnotation) ++spans_;
    return true;
  }

  // The first fields of all records of class kTimed.
  struct Timed {
    Tag tag;
    uint64_t ticks;
  };
  static_assert(offsetof(AnnotationRecord, ticks) == offsetof(Timed, ticks));
  static_assert(offsetof(TensorMemoryRecord, ticks) == offsetof(Timed, ticks));
  static_assert(offsetof(GpuGraphNodeRecord, ticks) == offsetof(Timed, ticks));

  // A corrupt time must not extend the whole capture.
  void At(uint64_t ticks) { last_ticks_ = std::max(last_ticks_, ticks <= limit_ ? ticks : 0); }

  const uint64_t limit_;
  bool whole_ = true;
  uint16_t last_failed_ = UINT16_MAX;
  uint32_t records_ = 0, spans_ = 0;
  uint64_t last_ticks_ = 0;
  ChunkSummary summary_{};
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_CHUNK_SUMMARY_H_
