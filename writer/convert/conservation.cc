// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/conservation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "writer/base/text.h"

namespace tbprof {
namespace {

using Kind = ConservedKind;
using Conserved = ConservedCause;  // `Cause` is the verdict's

Kind KindOfFamily(uint32_t family) {
  switch (family) {
    case kFamilyThread:
      return Kind::kThreadCall;
    case kFamilyLock:
      return Kind::kLock;
    case kFamilySleep:
      return Kind::kSleep;
    case kFamilyIo:
      return Kind::kIo;
    case kFamilyProcess:
      return Kind::kProcess;
    case kFamilyMalloc:
      return Kind::kLargeBlock;
    case kFamilyGpu:
    case kFamilyAnnotation:
      return Kind::kLibrary;
    default:
      return Kind::kNone;
  }
}

Kind KindOfCounted(uint32_t counted) {
  if (counted < kCountedFamilies) return KindOfFamily(1u << counted);
  switch (counted) {
    case kCountedSample:
      return Kind::kSample;
    case kCountedAnnotation:
      return Kind::kAnnotation;
    case kCountedTorch:
      return Kind::kTorch;
    case kCountedPythonStack:
      return Kind::kPythonStack;
    case kCountedTensor:
      return Kind::kTensorMemory;
    case kCountedBlock:
      return Kind::kBlock;
    case kCountedGpuKernel:
      return Kind::kGpuKernel;
    case kCountedGpuCopy:
      return Kind::kGpuCopy;
    case kCountedGpuCall:
      return Kind::kGpuCall;
    default:
      return Kind::kNone;
  }
}

bool BeginsRange(uint8_t flags) {
  const auto action = static_cast<AnnotationAction>(flags);
  return action != AnnotationAction::kPop && action != AnnotationAction::kEnd;
}

// Kinds whose records are all spans: the launcher counts these in the parts that it drops.
bool IsOfSpans(Kind kind) {
  switch (kind) {
    case Kind::kThreadCall:
    case Kind::kLock:
    case Kind::kSleep:
    case Kind::kIo:
    case Kind::kLargeBlock:
    case Kind::kLibrary:
      return true;
    default:
      return false;
  }
}

// Kinds that the launcher samples: their counters are in the latest status of a process.
bool IsSampled(Kind kind) { return kind == Kind::kPythonSample || kind == Kind::kNativeSample; }

}  // namespace

Kind Conservation::KindOf(uint32_t segment, RecordKind kind, uint8_t flags, uint32_t aux) {
  switch (kind) {
    case RecordKind::kSpan:
    case RecordKind::kCompactSpan: {
      if (operations_ == nullptr || segment_ != segment) {
        const auto found = facts_.segments.find(segment);
        if (found == facts_.segments.end()) return Kind::kNone;
        segment_ = segment;
        operations_ = &found->second;
      }
      return aux < operations_->operations.size() ? KindOfFamily(operations_->operations[aux].family) : Kind::kNone;
    }
    case RecordKind::kExec:
      return Kind::kProcess;
    case RecordKind::kAllocation:
      return Kind::kBlock;
    case RecordKind::kAllocationSample:
      return Kind::kSample;
    case RecordKind::kAnnotation:
      if (!BeginsRange(flags)) return Kind::kNone;
      return aux == kTorchDomain ? Kind::kTorch : Kind::kAnnotation;
    case RecordKind::kPythonStack:
      return Kind::kPythonStack;
    case RecordKind::kTensorMemory:
      return Kind::kTensorMemory;
    case RecordKind::kGpuKernel:
      return Kind::kGpuKernel;
    case RecordKind::kGpuCopy:
      return Kind::kGpuCopy;
    case RecordKind::kGpuApi:
      return Kind::kGpuCall;
    default:
      return Kind::kNone;
  }
}

Kind Conservation::Take(uint32_t segment, const RecordView& record) {
  const Kind kind = KindOf(segment, record.tag.kind, record.tag.flags, record.tag.aux);
  ++passed_[Index(kind)];
  // realloc of this block failed: it recorded a release and then undid it.
  if (kind == Kind::kBlock && (record.tag.flags & kRecordFailed) != 0) undone_ += 2;
  return kind;
}

void Conservation::AddThread(const Identity& identity, const ThreadFacts& thread) {
  const CallCountsFact& counts = thread.call_counts;
  const bool ended = thread.newest.end_ticks != 0;
  const auto process = facts_.processes.find({identity.segment, thread.process_serial});
  const bool runs = !ended && (process == facts_.processes.end() || process->second.end_ticks == 0);
  for (uint32_t counted = 0; counted < kCountedKinds; ++counted) {
    const Kind kind = KindOfCounted(counted);
    uint64_t made = counts.made[counted];
    if (counted == kCountedBlock) made = thread.newest.allocations + thread.newest.frees;
    if (kind == Kind::kNone || made == 0) continue;
    Made& sum = made_[Index(kind)];
    sum.count += made;
    sum.at_most += ended ? 0 : 1;
    if (counted < kCountedFamilies) sum.at_most += counts.left[counted];
    sum.open_end |= runs;
    Count(kind, Conserved::kNoRoom, counts.no_room[counted]);
  }
  Count(Kind::kLargeBlock, Conserved::kNotLarge, counts.not_large);
  // The committed records, of all kinds.
  Made& records = made_[Index(Kind::kRecord)];
  uint64_t dropped = 0;
  for (const uint64_t count : thread.newest.dropped) dropped += count;
  records.count += thread.newest.records + dropped;
  records.at_most += ended ? 0 : 1;
  records.open_end |= runs && thread.newest.records != 0;
  Count(Kind::kRecord, Conserved::kNoRoom, dropped);
}

void Conservation::AddShortCalls(const Identity& identity, const ThreadFacts& thread) {
  for (const auto& [operation, count] : thread.newest_counts) {
    Count(KindOf(identity.segment, RecordKind::kSpan, 0, operation), Conserved::kShort, count.calls);
  }
}

void Conservation::AddInFlight(const Identity& identity, const ThreadFacts& thread) {
  if (thread.newest.wait_since == 0 || open_.contains(identity)) return;
  Count(KindOf(identity.segment, RecordKind::kSpan, 0, thread.newest.wait_operation), Conserved::kInFlight);
}

void Conservation::AddThreads() {
  for (const auto& [identity, thread] : facts_.threads) {
    if (thread.newest.serial == 0) continue;
    AddThread(identity, thread);
    AddShortCalls(identity, thread);
    AddInFlight(identity, thread);
  }
  // Calls of threads that have no slot any more, and of threads that never had one.
  for (const auto& [identity, process] : facts_.processes) {
    const uint64_t late = process.last.late_allocations + process.last.late_frees;
    made_[Index(Kind::kBlock)].count += late;
    Count(Kind::kBlock, Conserved::kLateThread, late);
  }
  for (const auto& [identity, facts] : facts_.python.processes()) {
    const PythonStatusFact& status = facts.status;
    made_[Index(Kind::kPythonSample)].count += status.samples + status.torn + status.unreadable;
    Count(Kind::kPythonSample, Conserved::kTorn, status.torn);
    Count(Kind::kPythonSample, Conserved::kUnreadable, status.unreadable);
  }
  for (const auto& [identity, facts] : facts_.native.processes()) {
    made_[Index(Kind::kNativeSample)].count += facts.status.samples + facts.status.lost;
    Count(Kind::kNativeSample, Conserved::kLostByKernel, facts.status.lost);
  }
}

void Conservation::AddSpool() {
  for (const NotKeptRow& row : facts_.not_kept) {
    // For blocks, `aux` is nonzero if the record undoes another one.
    const uint32_t aux = row.kind == RecordKind::kAllocation ? 0 : row.aux;
    const auto begins = static_cast<uint8_t>(AnnotationAction::kPush);
    const Kind kind = KindOf(row.segment, row.kind, begins, aux);
    Count(kind, Conserved::kNotKept, row.records);
    Count(Kind::kRecord, Conserved::kNotKept, row.records);
    if (row.kind == RecordKind::kAllocation && row.aux != 0) undone_ += 2 * row.records;
  }
  for (const PartFact& part : facts_.dropped) Count(Kind::kRecord, Conserved::kDroppedPart, part.records);
  for (const TotalRow& row : facts_.totals) {
    Count(KindOf(row.segment, RecordKind::kSpan, 0, row.operation), Conserved::kDroppedPart, row.calls);
  }
  for (const auto& [thread, records] : read_) passed_[Index(Kind::kRecord)] += records;
}

bool Conservation::IsExact(const Input& input) const {
  // If writing failed, the counters of that time are missing as well.
  const bool failed =
      std::ranges::any_of(facts_.gaps, [](const auto& gap) { return gap.cause == GapCause::kWriteError; });
  return facts_.ended && input.own_window && !failed && facts_.missing_parts == 0 && facts_.damaged_bytes == 0 &&
         !facts_.truncated && facts_.unknown_records == 0;
}

// Whether the target's library counts its calls (since ABI 13).
bool Conservation::IsCounted() const {
  constexpr uint32_t kFirstThatCounts = 13;
  return !facts_.segments.empty() && std::ranges::all_of(facts_.segments, [](const auto& segment) {
    return segment.second.header.abi >= kFirstThatCounts;
  });
}

uint64_t Conservation::PublishedOf(Kind kind, const Input& input, const Timeline& timeline) const {
  switch (kind) {
    case Kind::kSample:
      return input.samples;
    // These kinds have no event per record: the records that the converter has read count as published.
    case Kind::kPythonStack:
    case Kind::kTensorMemory:
    case Kind::kRecord:
    case Kind::kBlock:
      return passed_[Index(kind)];
    case Kind::kPythonSample: {
      uint64_t samples = 0;
      for (const PythonThread& thread : timeline.python.threads) {
        for (const PythonTally& tally : thread.tallies) samples += tally.samples;
      }
      return samples;
    }
    case Kind::kNativeSample: {
      uint64_t samples = 0;
      for (const NativeThread& thread : timeline.native.threads) {
        for (const NativeTally& tally : thread.tallies) samples += tally.samples;
      }
      return samples;
    }
    default:
      return events_[Index(kind)];
  }
}

void Conservation::CountEvents(const Timeline& timeline) {
  std::vector<Kind> kinds;
  for (const EventType& type : timeline.types) kinds.push_back(ConservedKindOf(type));
  for (const Thread& thread : timeline.threads) {
    for (const Event& event : thread.events) ++events_[Index(kinds[event.type])];
  }
  for (const GpuStream& stream : timeline.gpu_streams) {
    for (const GpuEvent& event : stream.events) ++events_[Index(ConservedKindOf(event))];
  }
}

void Conservation::AddRow(Kind kind, const Input& input, Timeline* timeline) const {
  ConservedRow row;
  row.kind = kind;
  row.published = PublishedOf(kind, input, *timeline);
  std::ranges::copy(counts_[Index(kind)], row.rest);
  const Made& made = made_[Index(kind)];
  const bool has_made = kind != Kind::kThreadStart && IsCounted();
  // In dropped parts the launcher counts only spans by kind.
  const bool of_dropped_parts = !facts_.dropped.empty() && !IsOfSpans(kind) && kind != Kind::kRecord;
  uint64_t sum = row.published;
  for (const uint64_t count : row.rest) sum += count;
  if (has_made) {
    row.made = made.count;
    // Blocks can be compared only if each one is recorded (--malloc=exact); otherwise they are only counted.
    const bool only_counted = kind == Kind::kBlock && !input.each_block;
    if (only_counted) row.rest[Index(Conserved::kCountedOnly)] = made.count - std::min(made.count, sum);
    uint64_t expected = made.count + (kind == Kind::kBlock ? undone_ : 0);
    if (kind == Kind::kBlock) row.made = expected;
    const auto missing = static_cast<int64_t>(expected - sum);
    // A record is committed before it is counted; a block is recorded before or after it is counted.
    const bool may_exceed = kind == Kind::kRecord || kind == Kind::kBlock;
    row.left_at_most = made.at_most;
    const int64_t most = static_cast<int64_t>(std::min<uint64_t>(made.at_most, INT64_MAX));
    // The latest counters of a thread may be missing as well: from a sampler's status, or from a gap in the spool.
    const bool lower = IsSampled(kind) || !facts_.gaps.empty();
    if (missing > 0) row.rest[Index(Conserved::kLeft)] = static_cast<uint64_t>(std::min(missing, most));
    row.missing = missing > most ? missing - most : missing < (may_exceed ? -most : 0) ? missing : 0;
    if (only_counted) {
      row.missing = 0;
      row.rest[Index(Conserved::kLeft)] = 0;
    } else if (IsExact(input) && !made.open_end && !of_dropped_parts && !(row.missing < 0 && lower)) {
      row.holds = row.missing == 0;
    } else {
      if (row.missing == 0) row.holds = true;
      row.missing = 0;
    }
  }
  if (sum == 0 && row.made.value_or(0) == 0) return;
  timeline->conservation.push_back(row);
}

void Conservation::Finish(const Input& input, Timeline* timeline) {
  AddThreads();
  AddSpool();
  CountEvents(*timeline);
  for (size_t kind = 0; kind < kKinds; ++kind) AddRow(static_cast<Kind>(kind), input, timeline);
}

std::string ConservationText(const Timeline& timeline) {
  std::string text;
  for (const ConservedRow& row : timeline.conservation) {
    if (row.holds.value_or(true)) continue;
    const bool more = row.missing < 0;
    StrAppend(&text, text.empty() ? "" : ", ", more ? -row.missing : row.missing, more ? " more " : " of ", *row.made,
              " ", NameOf(row.kind), more ? " than were made" : "");
  }
  if (text.empty()) return "";
  return StrCat("counts do not add up: ", text,
                "; neither events nor counted as left out (summary.json: conservation)");
}

}  // namespace tbprof
