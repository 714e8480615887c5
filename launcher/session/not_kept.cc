// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/not_kept.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

uint32_t AuxOf(const Tag& tag) {
  const bool counts = IsSpan(tag.kind) || tag.kind == RecordKind::kExec || tag.kind == RecordKind::kAnnotation;
  // kRecordFailed marks a realloc that failed: the thread's counters do not count it, so it gets a separate row.
  if (tag.kind == RecordKind::kAllocation) return tag.flags & kRecordFailed;
  return counts ? tag.aux : 0;
}

}  // namespace

void NotKept::Count(const Key& key, uint64_t records) {
  records_ += records;
  if (rows_.size() < kMaxRows || rows_.contains(key)) rows_[key] += records;
}

void NotKept::Take(std::span<const uint8_t> frames) {
  ForEachFrame(frames, [&](const FrameHeader& header, const uint8_t* bytes, size_t) {
    if (header.type != FrameType::kChunk) return;
    Frame frame;
    frame.type = header.type;
    frame.segment = header.segment;
    frame.payload = {reinterpret_cast<const char*>(bytes) + sizeof(header), header.payload_bytes};
    ChunkFact chunk;
    uint64_t corrupt = 0;
    ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
      if (ClassOf(record.tag.kind) == RecordClass::kLayout) return;
      Count({frame.segment, record.tag.kind, AuxOf(record.tag)}, 1);
    });
  });
}

void NotKept::Add(const NotKept& other) {
  uint64_t counted = 0;
  for (const auto& [key, records] : other.rows_) {
    Count(key, records);
    counted += records;
  }
  records_ += other.records_ - counted;
}

void NotKept::AppendTo(FrameBuffer* buffer) const {
  std::vector<NotKeptRow> rows;
  for (const auto& [key, records] : rows_) {
    NotKeptRow row{};
    std::tie(row.segment, row.kind, row.aux) = key;
    row.records = records;
    rows.push_back(row);
  }
  const NotKeptFact fact{static_cast<uint32_t>(rows.size()), 0, records_};
  const size_t bytes = rows.size() * sizeof(NotKeptRow);
  uint8_t* const payload = buffer->Begin(FrameType::kNotKept, 0, static_cast<uint32_t>(sizeof(fact) + bytes));
  memcpy(payload, &fact, sizeof(fact));
  if (bytes > 0) memcpy(payload + sizeof(fact), rows.data(), bytes);
  buffer->Seal();
}

}  // namespace tbprof
