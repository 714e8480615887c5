// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/spool_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

constexpr size_t kMaxTotals = 1u << 16;
// A part holds at most this fraction of a sliding window, since only whole parts can be dropped.
constexpr uint64_t kPartsPerSlide = 8;

// Writes all bytes; returns 0 or errno.
int WriteAt(int fd, const uint8_t* bytes, size_t size, uint64_t at) {
  size_t done = 0;
  while (done < size) {
    const ssize_t wrote = pwrite(fd, bytes + done, size - done, static_cast<off_t>(at + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = wrote == 0 || errno == 0 ? EIO : errno;
      // Records that are counted as not kept must not be in the file. If truncating fails, only the count is too high.
      [[maybe_unused]] const int cut = ftruncate(fd, static_cast<off_t>(at));
      return error;
    }
    done += static_cast<size_t>(wrote);
  }
  return 0;
}

bool IsDiskFull(int error) { return error == ENOSPC || error == EDQUOT; }

bool HasFacts(const FrameHeader& header) {
  return header.type == FrameType::kChunk && (header.flags & kFrameFacts) != 0;
}

Frame ChunkFrame(const uint8_t* payload, size_t size, uint32_t segment) {
  Frame frame;
  frame.type = FrameType::kChunk;
  frame.segment = segment;
  frame.payload = std::string_view(reinterpret_cast<const char*>(payload), size);
  return frame;
}

bool BelongsInPart(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kChunk:
    case FrameType::kCounters:
      return true;
    case FrameType::kThread:
    case FrameType::kCallCounts:
    case FrameType::kProcess:
      return (header.flags & kFrameLasting) == 0;
    default:
      return false;
  }
}

FrameBuffer LastingOf(std::span<const uint8_t> frames) {
  FrameBuffer lasting(0);
  ForEachFrame(frames, [&](const FrameHeader& header, const uint8_t* frame, size_t size) {
    if ((header.flags & kFrameLasting) != 0) lasting.AppendRaw(frame, size);
  });
  return lasting;
}

}  // namespace

SpoolWriter::SpoolWriter(ScopedFd main, const SpoolPlan& plan, ScopedFd directory)
    : plan_(plan),
      name_(plan.path.substr(plan.path.rfind('/') + 1)),
      main_(std::move(main)),
      directory_(std::move(directory)),
      limit_(plan.limit),
      in_parts_(plan.parts_at_once && !plan.path.empty()) {
  if (directory_.valid() || plan.path.empty()) return;
  const size_t slash = plan.path.rfind('/');
  const std::string path = slash == std::string::npos ? "." : plan.path.substr(0, slash + 1);
  directory_.Reset(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

Retention SpoolWriter::CurrentRetention() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return retention_;
}

GpuFacts SpoolWriter::gpu_facts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return gpu_facts_;
}

void SpoolWriter::SetRetention(Retention retention) {
  std::lock_guard<std::mutex> lock(mutex_);
  retention_ = std::move(retention);
}

SpoolExtent SpoolWriter::ExtentOf(uint64_t from, uint64_t to) const {
  std::lock_guard<std::mutex> lock(mutex_);
  SpoolExtent extent{0, 1, 0};
  for (const Part& part : parts_) {
    if (part.fact.last_ticks < from || part.fact.first_ticks > to) continue;
    if (extent.last_part == 0) extent.first_part = part.fact.part;
    extent.last_part = part.fact.part;
  }
  return extent;
}

bool SpoolWriter::Wanted(uint64_t first_ticks, uint64_t last_ticks) const {
  PartFact fact{};
  fact.first_ticks = first_ticks;
  fact.last_ticks = last_ticks;
  return IsIn(CurrentRetention(), fact, last_ticks, false);
}

uint64_t SpoolWriter::SlidingTicks(const Retention& retention) const {
  return retention.everything && split_ticks() != UINT64_MAX ? plan_.split_sliding_ticks : retention.sliding_ticks;
}

bool SpoolWriter::IsIn(const Retention& retention, const PartFact& part, uint64_t now, bool needed_only) const {
  if (retention.everything && part.first_ticks < std::min(stopped_ticks(), split_ticks())) return true;
  for (const Retention::Range& range : retention.ranges) {
    if (part.last_ticks >= range.from && part.first_ticks <= range.to && (range.needed || !needed_only)) return true;
  }
  const uint64_t sliding = SlidingTicks(retention);
  return !needed_only && sliding != 0 && (now < sliding || part.last_ticks >= now - sliding);
}

// Drops parts until `bytes` more fit the limit; false: no part may be dropped.
bool SpoolWriter::MakeRoom(uint64_t bytes, const Retention& retention) {
  if (limit_ == 0) return true;
  const bool in_capture = std::any_of(retention.ranges.begin(), retention.ranges.end(),
                                      [](const auto& range) { return range.needed && range.to == UINT64_MAX; });
  const bool reserved = retention.everything && split_ticks() == UINT64_MAX;
  return MakeRoomWithin(reserved && !in_capture ? limit_ - std::min(limit_, plan_.reserve) : limit_, bytes);
}

bool SpoolWriter::MakeRoomWithin(uint64_t limit, uint64_t bytes) {
  while (limit_ != 0 && total_bytes() + bytes > limit) {
    if (!DropOldest(true, now_ticks_)) return false;
  }
  return true;
}

std::optional<SpoolWriter::Part> SpoolWriter::TakeOldest(bool under_pressure, uint64_t now_ticks) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& candidate) {
    return !candidate.fd.valid() && !IsIn(retention_, candidate.fact, now_ticks, /*needed_only=*/under_pressure);
  });
  if (found == parts_.end()) return std::nullopt;
  Part part = std::move(*found);
  parts_.erase(found);
  return part;
}

bool SpoolWriter::DropOldest(bool under_pressure, uint64_t now_ticks) {
  std::optional<Part> part = TakeOldest(under_pressure, now_ticks);
  if (!part) return false;
  Drop(std::move(*part), CurrentRetention().totals, /*disk_is_full=*/false);
  return true;
}

void SpoolWriter::Drop(Part part, bool totals, bool disk_is_full) {
  if (totals || part.has_gpu_memory) CountDropped(part, totals);
  const auto remove = [&] { unlinkat(directory_.get(), PartPath(name_, part.fact.part).c_str(), 0); };
  // What is written below needs the room.
  if (disk_is_full) remove();
  // Writes the totals first: a reader ignores them until the part is noted as dropped, so that a launcher killed in
  // between leaves a consistent spool. GPU memory is written again, since earlier memory rows may be in the dropped
  // part.
  if (totals || !gpu_totals_.memory().empty() || gpu_totals_.memory_left_out() > 0) WriteTotals(totals);
  FrameBuffer frames(sizeof(FrameHeader) + sizeof(PartFact));
  frames.AppendFact(FrameType::kDropped, 0, part.fact);
  WriteMain(frames);
  drops_.fetch_add(1, std::memory_order_relaxed);
  total_bytes_.fetch_sub(part.fact.bytes, std::memory_order_relaxed);
  if (!disk_is_full) remove();
}

void SpoolWriter::CountDropped(const Part& part, bool totals) {
  const auto reader = SpoolReader::OpenPart(directory_.get(), name_, part.fact.part);
  if (!reader.ok() && part.has_gpu_memory) gpu_totals_.LeaveOutMemory();
  Frame frame;
  uint64_t corrupt = 0;
  while (reader.ok() && (*reader)->Next(&frame)) {
    if (frame.type != FrameType::kChunk) continue;
    ChunkFact chunk{};
    ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
      SpanRecord span;
      if (!totals) {
        gpu_totals_.AddMemory(frame.segment, chunk.process_serial, record);
        return;
      }
      if (!IsSpan(record.tag.kind)) {
        gpu_totals_.Add(frame.segment, chunk.process_serial, record);
        return;
      }
      if (!record.ReadSpan(&span) || span.start + span.ticks < span.start) return;
      Key key{frame.segment, chunk.process_serial, record.tag.aux, span.call_site};
      if (totals_.size() >= kMaxTotals && !totals_.contains(key)) key.site = 0;
      if (totals_.size() >= 2 * kMaxTotals && !totals_.contains(key)) return;
      Sum& sum = totals_[key];
      ++sum.calls;
      if (__builtin_add_overflow(sum.ticks, span.ticks, &sum.ticks)) sum.ticks = UINT64_MAX;
      sum.longest = std::max(sum.longest, span.ticks);
    });
    if (totals) lost_ += chunk.lost;
  }
}

void SpoolWriter::WriteTotals(bool totals) {
  FrameBuffer frames(0);
  const auto append = [&](FrameType type, const auto& rows, uint64_t lost) {
    const TotalsFact fact{static_cast<uint32_t>(drops_.load() + 1), static_cast<uint32_t>(rows.size()), lost};
    const size_t bytes = rows.size() * sizeof(rows[0]);
    uint8_t* const payload = frames.Begin(type, 0, static_cast<uint32_t>(sizeof(fact) + bytes));
    memcpy(payload, &fact, sizeof(fact));
    if (bytes > 0) memcpy(payload + sizeof(fact), rows.data(), bytes);
    frames.Seal();
  };
  if (totals) {
    std::vector<TotalRow> rows;
    for (const auto& [key, sum] : totals_) {
      rows.push_back({key.segment, key.process, key.operation, 0, key.site, sum.calls, sum.ticks, sum.longest});
    }
    append(FrameType::kTotals, rows, lost_);
    const std::vector<GpuTotalRow> gpu_rows = gpu_totals_.Rows();
    if (!gpu_rows.empty()) append(FrameType::kGpuTotals, gpu_rows, lost_);
  }
  const std::vector<GpuMemoryRow>& memory = gpu_totals_.memory();
  if (!memory.empty() || gpu_totals_.memory_left_out() > 0)
    append(FrameType::kGpuMemory, memory, gpu_totals_.memory_left_out());
  // Written regardless of the limit: dropping the part frees more at once.
  if (WritePart({frames.bytes()}, 0, now_ticks_, now_ticks_) != 0) WriteMain(frames);
}

uint16_t SpoolWriter::CountRecords(std::span<const uint8_t> payload, RecordCounts* counts,
                                   ChunkSummary* summary) const {
  const Frame frame = ChunkFrame(payload.data(), payload.size(), 0);
  ChunkFact chunk{};
  if (!frame.Read(&chunk)) return 0;
  ChunkSummarizer summarizer(chunk, chunk.taken_ticks);
  uint64_t corrupt = 0;
  RecordCounts found;
  bool facts = false;
  ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
    SpanRecord span;
    GpuSpanRecord gpu_span;
    if (record.ReadSpan(&span)) {
      summarizer.TakeSpan(record.tag, span);
      ++found.spans;
      if (span.ticks >= plan_.long_ticks) ++found.long_spans;
      return;
    }
    summarizer.Take(record);
    if (record.tag.kind == RecordKind::kAllocationSample) {
      found.sample_bytes += record.size;
    } else if (record.tag.kind == RecordKind::kAnnotation) {
      // A range has two records: only its end is counted.
      found.spans += record.tag.flags != static_cast<uint8_t>(AnnotationAction::kPush) &&
                             record.tag.flags != static_cast<uint8_t>(AnnotationAction::kStart)
                         ? 1
                         : 0;
    } else if (record.tag.kind == RecordKind::kGpuKernel) {
      ++found.kernels;
    } else if (record.tag.kind == RecordKind::kGpuSpan) {
      if (record.Read(&gpu_span) && gpu_span.span_kind == GpuSpanKind::kGraph) ++found.kernels;
    } else {
      facts |= record.tag.kind == RecordKind::kGpuMemory || IsFact(record.tag.kind);
    }
  });
  counts->spans += found.spans;
  counts->long_spans += found.long_spans;
  counts->kernels += found.kernels;
  counts->sample_bytes += found.sample_bytes;
  counts->bytes += payload.size();
  if (facts) return kFrameFacts;
  if (corrupt != 0 || !summarizer.whole()) return 0;
  *summary = summarizer.summary();
  summary->crc = SummaryCrc(*summary);
  return kFrameSummary;
}

void SpoolWriter::Add(const RecordCounts& counts) {
  kernels_.fetch_add(counts.kernels, std::memory_order_relaxed);
  sample_bytes_.fetch_add(counts.sample_bytes, std::memory_order_relaxed);
  drained_bytes_.fetch_add(counts.bytes, std::memory_order_relaxed);
  spans_.fetch_add(counts.spans, std::memory_order_relaxed);
  long_spans_.fetch_add(counts.long_spans, std::memory_order_relaxed);
}

// `kept`: null if the chunk itself goes into the main file.
void SpoolWriter::TakeFacts(const Frame& frame, FrameBuffer* kept) {
  ChunkFact chunk{};
  uint64_t corrupt = 0;
  uint32_t fact_slots = 0;
  ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
    block_has_gpu_memory_ |= record.tag.kind == RecordKind::kGpuMemory;
    if (!IsFact(record.tag.kind)) return;
    fact_slots += record.tag.slots;
    if (record.tag.kind != RecordKind::kGpuInfo) return;
    std::lock_guard<std::mutex> lock(mutex_);
    gpu_facts_.Take(record);
  });
  if (kept == nullptr || fact_slots == 0) return;
  ChunkFact fact = chunk;
  fact.slots = fact_slots;
  fact.lost = 0;
  uint8_t* to =
      kept->Begin(FrameType::kKept, frame.segment, static_cast<uint32_t>(sizeof(fact)) + fact_slots * kSlotBytes);
  memcpy(to, &fact, sizeof(fact));
  to += sizeof(fact);
  ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
    if (!IsFact(record.tag.kind)) return;
    memcpy(to, record.bytes, record.size);
    to += record.size;
  });
  kept->Seal();
}

bool SpoolWriter::WriteMain(const FrameBuffer& frames) {
  if (frames.size() == 0) return true;
  for (;;) {
    const uint64_t position = main_bytes();
    const int error = WriteAt(main_.get(), frames.bytes().data(), frames.size(), sizeof(SpoolHeader) + position);
    if (error == 0) {
      main_bytes_.store(position + frames.size(), std::memory_order_relaxed);
      total_bytes_.fetch_add(frames.size(), std::memory_order_relaxed);
      return true;
    }
    write_error_.store(error, std::memory_order_relaxed);
    if (!IsDiskFull(error)) return false;
    std::optional<Part> part = TakeOldest(/*under_pressure=*/true, now_ticks_);
    if (!part) return false;
    Drop(std::move(*part), /*totals=*/false, /*disk_is_full=*/true);
  }
}

int SpoolWriter::BeginPart(uint64_t ticks) {
  Part part;
  part.fact.part = next_part_;
  part.fact.first_ticks = part.fact.last_ticks = ticks;
  const std::string name = PartPath(name_, next_part_);
  part.fd.Reset(openat(directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!part.fd.valid()) return errno;
  const SpoolHeader header = MakeSpoolHeader(plan_.session, next_part_);
  const int error = WriteAt(part.fd.get(), reinterpret_cast<const uint8_t*>(&header), sizeof(header), 0);
  if (error != 0) {
    unlinkat(directory_.get(), name.c_str(), 0);
    return error;
  }
  part.fact.bytes = sizeof(header);
  total_bytes_.fetch_add(sizeof(header), std::memory_order_relaxed);
  FrameBuffer frames(sizeof(FrameHeader) + sizeof(PartFact));
  frames.AppendFact(FrameType::kPart, 0, part.fact);
  WriteMain(frames);
  ++next_part_;
  std::lock_guard<std::mutex> lock(mutex_);
  parts_.push_back(std::move(part));
  return 0;
}

int SpoolWriter::WritePart(const Pieces& pieces, uint64_t records, uint64_t first_ticks, uint64_t last_ticks) {
  if (parts_.empty() || !parts_.back().fd.valid()) {
    if (const int error = BeginPart(first_ticks); error != 0) return error;
  }
  PartFact fact;
  int fd;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    fact = parts_.back().fact;
    fd = parts_.back().fd.get();
  }
  uint64_t size = 0;
  for (const std::span<const uint8_t> piece : pieces) {
    if (const int error = WriteAt(fd, piece.data(), piece.size(), fact.bytes + size); error != 0) {
      [[maybe_unused]] const int cut = ftruncate(fd, static_cast<off_t>(fact.bytes));
      return error;
    }
    size += piece.size();
  }
  total_bytes_.fetch_add(size, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(mutex_);
  parts_.back().has_gpu_memory |= block_has_gpu_memory_;
  PartFact& written = parts_.back().fact;
  written.bytes += size;
  written.records += records;
  written.last_ticks = std::max(written.last_ticks, last_ticks);
  return 0;
}

// Whether another process has removed the part that grows.
bool SpoolWriter::IsRemoved() const {
  struct stat facts;
  return !parts_.empty() && parts_.back().fd.valid() && fstat(parts_.back().fd.get(), &facts) == 0 &&
         facts.st_nlink == 0;
}

void SpoolWriter::Rotate() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!parts_.empty()) parts_.back().fd.Reset();
}

void SpoolWriter::WriteWhole(std::span<const uint8_t> frames, uint64_t records, uint64_t first_ticks,
                             uint64_t last_ticks) {
  const Retention retention = CurrentRetention();
  if (records > 0 && (stopped_ticks() != UINT64_MAX || !MakeRoom(frames.size(), retention))) {
    NoteNotKept(GapCause::kLimit, records, first_ticks, last_ticks, 0, {frames});
    WriteMain(LastingOf(frames));
    return;
  }
  const uint64_t position = main_bytes();
  const int error = WriteAt(main_.get(), frames.data(), frames.size(), sizeof(SpoolHeader) + position);
  if (error != 0) {
    write_error_.store(error, std::memory_order_relaxed);
    NoteNotKept(GapCause::kWriteError, records, first_ticks, last_ticks, error, {frames});
    return;
  }
  main_bytes_.store(position + frames.size(), std::memory_order_relaxed);
  total_bytes_.fetch_add(frames.size(), std::memory_order_relaxed);
  WriteGap();
}

// Decides whether the block is divided between a part and the main file, or written whole into the main file.
void SpoolWriter::ChooseMode(size_t bytes, uint64_t records, uint64_t first_ticks) {
  if (plan_.split_bytes != 0 && split_ticks() == UINT64_MAX && records > 0 &&
      total_bytes() + bytes > plan_.split_bytes && CurrentRetention().everything) {
    split_ticks_.store(first_ticks, std::memory_order_relaxed);
    in_parts_ = true;
    Rotate();
  }
  if (!plan_.path.empty() && (main_bytes() + bytes > plan_.part_bytes || stopped_ticks() != UINT64_MAX)) {
    in_parts_ = true;
  }
  in_parts_ &= !directory_gone_;
}

void SpoolWriter::Write(std::span<const uint8_t> frames, uint64_t records, uint64_t first_ticks, uint64_t last_ticks) {
  now_ticks_ = std::max(now_ticks_, last_ticks);
  ChooseMode(frames.size(), records, first_ticks);
  block_has_gpu_memory_ = false;
  if (!in_parts_) {
    ForEachFrame(frames, [&](const FrameHeader& header, const uint8_t* frame, size_t) {
      if (HasFacts(header))
        TakeFacts(ChunkFrame(frame + sizeof(header), header.payload_bytes, header.segment), nullptr);
    });
    WriteWhole(frames, records, first_ticks, last_ticks);
    return;
  }
  FrameBuffer facts(0);
  Pieces part;
  uint64_t part_bytes = 0;
  ForEachFrame(frames, [&](const FrameHeader& header, const uint8_t* frame, size_t size) {
    if (HasFacts(header)) TakeFacts(ChunkFrame(frame + sizeof(header), header.payload_bytes, header.segment), &facts);
    if (BelongsInPart(header)) {
      if (part.empty() || part.back().data() + part.back().size() != frame) part.emplace_back(frame, 0);
      part.back() = {part.back().data(), part.back().size() + size};
      part_bytes += size;
    } else {
      facts.AppendRaw(frame, size);
    }
  });
  // Facts are written first: a launcher killed in between leaves facts without records, never records without facts.
  WriteFacts(facts, records);
  if (!part.empty()) WriteIntoPart(part, part_bytes, records, first_ticks, last_ticks);
}

void SpoolWriter::WriteFacts(const FrameBuffer& facts, uint64_t records) {
  const bool has_room = records == 0 || limit_ == 0 ||
                        (main_bytes() + facts.size() <= limit_ / 2 && MakeRoomWithin(limit_, facts.size()));
  if (!has_room) {
    full_.store(true, std::memory_order_relaxed);
    not_kept_.fetch_add(1, std::memory_order_relaxed);
  }
  // Lasting facts are written beyond the limit: no later fact repeats them, and a thread's last counts are needed to
  // compute the missing records.
  if (!(has_room ? WriteMain(facts) : WriteMain(LastingOf(facts.bytes()))))
    not_kept_.fetch_add(1, std::memory_order_relaxed);
}

void SpoolWriter::WriteIntoPart(const Pieces& part, uint64_t bytes, uint64_t records, uint64_t first_ticks,
                                uint64_t last_ticks) {
  const Retention retention = CurrentRetention();
  if (!Wanted(first_ticks, last_ticks)) {
    if (retention.everything) NoteNotKept(GapCause::kLimit, records, first_ticks, last_ticks, 0, part);
    return;
  }
  const uint64_t sliding = SlidingTicks(retention);
  const bool old =
      !parts_.empty() && sliding != 0 && last_ticks > parts_.back().fact.first_ticks + sliding / kPartsPerSlide;
  if (old || (!parts_.empty() && parts_.back().fact.bytes + bytes > plan_.part_bytes)) Rotate();
  for (;;) {
    if (!MakeRoom(bytes, retention)) {
      NoteNotKept(GapCause::kLimit, records, first_ticks, last_ticks, 0, part);
      return;
    }
    if (IsRemoved()) Rotate();
    const int error = WritePart(part, records, first_ticks, last_ticks);
    if (error == 0) break;
    if (error == ENOENT) {
      // The directory was removed with all its files; the main file is still open and can be read through its
      // descriptor.
      directory_gone_ = true;
      FrameBuffer whole(bytes);
      for (const std::span<const uint8_t> piece : part) whole.AppendRaw(piece.data(), piece.size());
      WriteWhole(whole.bytes(), records, first_ticks, last_ticks);
      return;
    }
    write_error_.store(error, std::memory_order_relaxed);
    if (IsDiskFull(error) && DropOldest(true, now_ticks_)) continue;
    NoteNotKept(GapCause::kWriteError, records, first_ticks, last_ticks, error, part);
    return;
  }
  WriteGap();
}

void SpoolWriter::NoteGap(GapCause cause, uint64_t records, uint64_t first_ticks, uint64_t last_ticks,
                          const NotKept& what) {
  not_kept_rows_.Add(what);
  NoteNotKept(cause, records, first_ticks, last_ticks, 0, {});
}

void SpoolWriter::NoteNotKept(GapCause cause, uint64_t records, uint64_t first_ticks, uint64_t last_ticks, int error,
                              const Pieces& pieces) {
  if (records == 0) return;
  for (const std::span<const uint8_t> piece : pieces) not_kept_rows_.Take(piece);
  not_kept_.fetch_add(records, std::memory_order_relaxed);
  if (cause == GapCause::kLimit) full_.store(true, std::memory_order_relaxed);
  if (cause != GapCause::kSlowDisk && stopped_ticks() == UINT64_MAX && split_ticks() == UINT64_MAX &&
      CurrentRetention().everything) {
    // Stops keeping the run: later records would follow a gap.
    stopped_ticks_.store(first_ticks, std::memory_order_relaxed);
  }
  if (gap_.records != 0 && gap_.cause != cause) WriteGap();
  if (gap_.records == 0) gap_ = GapFact{first_ticks, last_ticks, 0, cause, error};
  gap_.records += records;
  gap_.last_ticks = std::max(gap_.last_ticks, last_ticks);
}

void SpoolWriter::WriteGap() {
  if (gap_.records == 0) return;
  FrameBuffer frames(sizeof(FrameHeader) + sizeof(gap_));
  frames.AppendFact(FrameType::kGap, 0, gap_);
  not_kept_rows_.AppendTo(&frames);
  // If this write fails too, gap_ stays for the next try.
  if (WriteMain(frames)) gap_ = GapFact{};
}

void SpoolWriter::Tidy(uint64_t now_ticks) {
  now_ticks_ = std::max(now_ticks_, now_ticks);
  bool idle = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (parts_.empty()) return;
    // Closes the last part if none of its records are wanted.
    idle = parts_.back().fd.valid() && !IsIn(retention_, parts_.back().fact, now_ticks_, false);
  }
  if (idle) Rotate();
  while (DropOldest(false, now_ticks_)) {
  }
}

void SpoolWriter::Finish() { WriteGap(); }

}  // namespace tbprof
