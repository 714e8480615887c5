// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/drain.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/base/deadline.h"
#include "launcher/base/start_thread.h"
#include "wire/records.h"

namespace tbprof {
namespace {

constexpr size_t kBlockBytes = 1u << 20;
// Bytes of a chunk frame from which on it gets a summary: a smaller frame is read as fast as it is skipped.
constexpr uint32_t kLeastSummarized = 4096;
constexpr size_t kSpareBlocks = 8, kMaxSpareBlocks = 64;
constexpr size_t kMaxQueuedBytes = 96u << 20;
// A disk that took no block for this time counts as stalled.
constexpr int kStandsMs = 500;
constexpr uint64_t kHandOverNs = 20'000'000;
constexpr uint64_t kCountersNs = 10'000'000;
constexpr uint64_t kFactsNs = 1'000'000'000;
// Bytes that one pass should drain; the sleep between passes is adapted to it. Passes are frequent enough that the
// records are still in a cache and few chunks are in use, and rare enough that the drain does not disturb a program
// that records little.
constexpr uint64_t kPassBytes = 256 << 10;
constexpr uint64_t kPassChunkShare = 16;  // 1/16 of a segment's chunks freed also counts as a full pass
constexpr int kMinSleepUs = 300;
// The longest sleep with ends of processes to write. Ends during a sleep do not shorten it, so that one pass covers
// several: a pass for each of a thousand short processes would cost three writes and three wakes each.
constexpr int kEndedSleepUs = 5000;
constexpr int kMaxBusySleepUs = 20'000;
// Bursts after a trickle, such as CUPTI's buffers: a longer sleep than kSleepBetweenBurstsUs would let each burst fill
// chunks for the whole sleep. A burst is a pass of more than kBurstBytes.
constexpr uint64_t kBurstBytes = 4 << 20;
constexpr uint64_t kBurstsExpectedNs = 1'000'000'000;
constexpr int kSleepBetweenBurstsUs = 2000;
// The assumed fastest rate of recording (2 GB/s): the sleep is so short that threads that begin to record cannot fill a
// small segment before the next pass.
constexpr uint64_t kFastestBytesPerUs = 2048;
// Pages of chunks that the launcher has read count as its memory. Beyond this many chunks (48 MiB) it unmaps the pages,
// and the next read maps them again. A drain that keeps up reads the same few chunks.
constexpr uint64_t kMaxTouchedChunks = 768;

SpoolPlan OneFile(uint64_t limit) {
  SpoolPlan plan;
  plan.limit = limit;
  return plan;
}

}  // namespace

Drain::Drain(ScopedFd spool, ClockKind clock, uint64_t spool_limit)
    : Drain(std::move(spool), clock, OneFile(spool_limit)) {}

Drain::Drain(ScopedFd spool, ClockKind clock, const SpoolPlan& plan, ScopedFd directory)
    : writer_(std::move(spool), plan, std::move(directory)), clock_(clock), slots_(clock) {
  activity_fd_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  current_first_ticks_ = ReadTicks(clock_);
  own_frames_ = std::make_unique<FrameBuffer>(4096);
  current_ = std::make_unique<FrameBuffer>(kBlockBytes + kChunkBytes);
}

Drain::~Drain() { Stop(); }

absl::Status Drain::Start() {
  absl::Status status = StartThread(&drain_thread_, [this] { DrainLoop(); });
  if (status.ok()) status = StartThread(&write_thread_, [this] { WriteLoop(); });
  if (!status.ok() && drain_thread_.joinable()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      wake_.notify_all();
    }
    drain_thread_.join();
  }
  return status;
}

bool Drain::Stop(int patience_ms) {
  if (!drain_thread_.joinable()) return true;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  if (patience_ms > 0) {
    std::unique_lock<std::mutex> lock(queue_mutex_);
    uint64_t seen = blocks_written_;
    Patience patience;
    while (!write_ended_) {
      queue_emptied_.wait_for(lock, std::chrono::milliseconds(50));
      if (blocks_written_ != seen) patience.Restart();
      seen = blocks_written_;
      if (patience.Look() > absl::Milliseconds(patience_ms)) return false;
    }
  }
  drain_thread_.join();
  write_thread_.join();
  return true;
}

void Drain::ReleaseSegments() {
  if (drain_thread_.joinable()) return;
  pass_segments_.clear();
  segments_.clear();
}

MappedSegment* Drain::Add(std::unique_ptr<MappedSegment> segment, const SegmentFact& fact) {
  MappedSegment* added = segment.get();
  const SegmentHeader header = Snapshot(*added->segment.header);
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t operation_bytes = added->operation_count * static_cast<uint32_t>(sizeof(Operation));
  uint8_t* payload = own_frames_->Begin(FrameType::kSegment, added->number,
                                        static_cast<uint32_t>(sizeof(fact) + sizeof(header)) + operation_bytes);
  memcpy(payload, &fact, sizeof(fact));
  memcpy(payload + sizeof(fact), &header, sizeof(header));
  memcpy(payload + sizeof(fact) + sizeof(header), added->segment.operations, operation_bytes);
  own_frames_->Seal();
  segments_.push_back(std::move(segment));
  return added;
}

void Drain::Remove(uint32_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& segment : segments_) {
    if (segment->number == number) removals_.push_back(number);
  }
}

void Drain::ProcessEnded(uint32_t number, uint32_t process_serial, pid_t outer_pid) {
  std::lock_guard<std::mutex> lock(mutex_);
  ended_.push_back({number, process_serial, outer_pid, true});
  ended_count_.fetch_add(1, std::memory_order_relaxed);
  // Fork children take process slots even while no window is open.
  pass_wanted_ |= ended_.size() >= kProcessSlots / 16;
  if (pass_wanted_) wake_.notify_all();
}

void Drain::ProcessSeen(uint32_t number, uint32_t process_serial, pid_t outer_pid) {
  std::lock_guard<std::mutex> lock(mutex_);
  ended_.push_back({number, process_serial, outer_pid, false});
}

void Drain::Append(FrameType type, uint32_t segment, const void* payload, size_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  own_frames_->Append(type, segment, payload, size);
}

bool Drain::Flush(int limit_ms, bool rotate) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t wanted = ++flush_wanted_;
  rotate_wanted_ |= rotate;
  wake_.notify_all();
  return flushed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return flush_written_ >= wanted; });
}

void Drain::SetIdleInterval(int milliseconds, bool armed) {
  std::lock_guard<std::mutex> lock(mutex_);
  pass_wanted_ |= milliseconds < idle_.milliseconds || (armed && !idle_.armed);
  idle_ = {milliseconds, armed};
  if (pass_wanted_) wake_.notify_all();
}

void Drain::SetRetention(Retention retention) {
  writer_.SetRetention(std::move(retention));
  // An empty block wakes the write thread, which checks at once whether parts can be dropped.
  std::lock_guard<std::mutex> lock(queue_mutex_);
  queue_.emplace_back();
  queue_filled_.notify_all();
}

void Drain::RequestFlush() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++flush_wanted_;
  wake_.notify_all();
}

Drain::Work Drain::WaitForWork(int sleep_us) {
  Work work;
  std::unique_lock<std::mutex> lock(mutex_);
  if (!stop_ && flush_wanted_ == flush_drained_ && removals_.empty()) {
    const int most_us = ended_.empty() ? sleep_us : std::min(sleep_us, kEndedSleepUs);
    wake_.wait_for(lock, std::chrono::microseconds(most_us),
                   [&] { return stop_ || pass_wanted_ || flush_wanted_ != flush_drained_; });
  }
  pass_wanted_ = false;
  work.idle = idle_;
  work.stopping = stop_;
  work.flush = flush_wanted_;
  work.rotate = std::exchange(rotate_wanted_, false);
  work.removals.swap(removals_);
  work.ended.swap(ended_);
  ended_count_.store(0, std::memory_order_relaxed);
  pass_segments_.clear();
  for (auto& segment : segments_) pass_segments_.push_back(segment.get());
  if (own_frames_->size() > 0) {
    work.own = std::make_unique<FrameBuffer>(4096);
    work.own.swap(own_frames_);
  }
  return work;
}

void Drain::DrainLoop() {
  int sleep_us = kMinSleepUs;
  for (;;) {
    Work work = WaitForWork(sleep_us);
    if (work.own != nullptr) {
      // The launcher's frames go after the records drained so far and before later ones, so that the border of a window
      // lies between the records.
      HandOver(true);
      current_.swap(work.own);
      HandOver(true);
    }
    for (const Ended& process : work.ended) {
      const ProcessKey key{process.number, process.process_serial};
      if (!process.ended) slots_.SetOuterPid(key, process.outer_pid);
      if (process.ended) dead_.insert(key);
    }
    const uint64_t taken = Pass();
    NotifyActivity(taken);
    const bool all_facts = work.stopping || work.flush != flush_drained_;
    const uint64_t now = ReadMonotonic();
    AppendFacts(all_facts, now);
    HandOver(all_facts || now - last_hand_over_ns_ > kHandOverNs);
    if (!work.removals.empty()) RemoveSegments(work.removals);
    if (work.flush != flush_drained_) QueueFlush(work);
    if (work.stopping) break;
    if (taken > kBurstBytes) bursts_until_ns_ = now + kBurstsExpectedNs;
    sleep_us = NextSleepUs(sleep_us, work.idle, taken, now);
  }
  std::lock_guard<std::mutex> lock(queue_mutex_);
  queue_closed_ = true;
  queue_filled_.notify_all();
}

void Drain::AppendFacts(bool all, uint64_t now) {
  // Facts go into separate blocks without records, which a full spool still accepts.
  if (all || !dead_.empty() || now - last_facts_ns_ > kFactsNs) HandOver(true);
  for (MappedSegment* segment : pass_segments_) {
    if (SlotRecorder::HasSlotsToFree(*segment)) slots_.Append(segment, current_.get());
  }
  if (!dead_.empty()) {
    for (MappedSegment* segment : pass_segments_) slots_.EndProcesses(segment, dead_, current_.get());
    dead_.clear();
  }
  if (all || now - last_facts_ns_ > kFactsNs) {
    for (MappedSegment* segment : pass_segments_) {
      slots_.ReadKernelNames(segment, pass_segments_.size());
      slots_.Append(segment, current_.get());
    }
    last_facts_ns_ = now;
  }
  if (all || now - last_counters_ns_ > kCountersNs) {
    const uint64_t ticks = ReadTicks(clock_);
    heap_changes_ = false;
    for (MappedSegment* segment : pass_segments_) {
      heap_changes_ |= slots_.AppendCounters(segment, ticks, current_.get());
    }
    last_counters_ns_ = now;
  }
}

void Drain::RemoveSegments(const std::vector<uint32_t>& numbers) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const uint32_t number : numbers) {
    std::erase_if(segments_, [&](const auto& segment) { return segment->number == number; });
    std::erase_if(dead_, [&](const ProcessKey& key) { return key.number == number; });
    slots_.Forget(number);
  }
}

void Drain::QueueFlush(const Work& work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    flush_drained_ = work.flush;
  }
  std::lock_guard<std::mutex> lock(queue_mutex_);
  Block mark;
  mark.flush = work.flush;
  mark.rotate = work.rotate;
  queue_.push_back(std::move(mark));
  queue_filled_.notify_all();
}

void Drain::NotifyActivity(uint64_t taken) {
  bool news = taken > 0;
  for (MappedSegment* mapped : pass_segments_) {
    const SegmentHeader* header = mapped->segment.header;
    const uint32_t serial = __atomic_load_n(&header->next_process_serial, __ATOMIC_RELAXED);
    const uint32_t requests = __atomic_load_n(&header->capture_requests, __ATOMIC_RELAXED);
    const uint32_t borders = __atomic_load_n(&TriggersOf(mapped->segment.header)->reported, __ATOMIC_RELAXED);
    news |= serial != mapped->process_serial || requests != mapped->capture_requests || borders != mapped->borders;
    mapped->process_serial = serial;
    mapped->capture_requests = requests;
    mapped->borders = borders;
  }
  if (!news) return;
  has_activity_.store(true);
  if (activity_wanted_.exchange(false)) eventfd_write(activity_fd_.get(), 1);
}

bool Drain::ConsumeActivity(bool wait) {
  eventfd_t ignored;
  eventfd_read(activity_fd_.get(), &ignored);
  if (wait) activity_wanted_.store(true);
  return has_activity_.exchange(false);
}

int Drain::NextSleepUs(int sleep_us, Idle idle, uint64_t taken, uint64_t now) const {
  uint64_t most = static_cast<uint64_t>(idle.milliseconds) * 1000;
  if (taken > 0) most = std::min<uint64_t>(most, now < bursts_until_ns_ ? kSleepBetweenBurstsUs : kMaxBusySleepUs);
  // Each AppendCounters call is one sample of the bytes in use, so that passes have to be frequent.
  if (heap_changes_) most = std::min<uint64_t>(most, kCountersNs / 1000);
  for (const MappedSegment* segment : pass_segments_) {
    if (!idle.armed) break;
    most = std::min(most, uint64_t{segment->segment.chunk_count} * kChunkBytes / kFastestBytesPerUs);
  }
  const uint64_t longest = std::min<uint64_t>(static_cast<uint64_t>(sleep_us) * 2, most);
  const uint64_t fitting = static_cast<uint64_t>(sleep_us) * kPassBytes / std::max<uint64_t>(taken, 1);
  return static_cast<int>(std::clamp<uint64_t>(fitting, kMinSleepUs, std::max<uint64_t>(longest, kMinSleepUs)));
}

uint64_t Drain::Pass() {
  uint64_t taken = 0;
  for (MappedSegment* segment : pass_segments_) taken += DrainSegment(segment);
  return taken;
}

// The memory is shared: MADV_DONTNEED drops only the mapping of this process, not the data.
void Drain::GiveBackPages() {
  for (MappedSegment* segment : pass_segments_) {
    if (segment->mapping.valid()) madvise(segment->mapping.data(), segment->mapping.size(), MADV_DONTNEED);
    std::fill(segment->touched.begin(), segment->touched.end(), false);
  }
  touched_chunks_ = 0;
}

// How many slots of a chunk may have been written. Most of a dead thread's chunk was never touched: reading it would
// allocate its pages, which costs more than all records of a short process. (mincore is unsuitable: it reports
// swapped-out pages as absent.)
uint32_t Drain::WrittenSlots(const MappedSegment& mapped, uint32_t index) {
  if (!mapped.file.valid()) return kSlotsPerChunk;
  const off_t begin = reinterpret_cast<const uint8_t*>(mapped.segment.Chunk(index)) -
                      static_cast<const uint8_t*>(mapped.mapping.data());
  const off_t end = begin + static_cast<off_t>(kSlotsPerChunk) * kSlotBytes;
  off_t written = begin;
  for (off_t at = begin; at < end;) {
    const off_t data = lseek(mapped.file.get(), at, SEEK_DATA);
    if (data < 0 && errno != ENXIO) return kSlotsPerChunk;
    if (data < 0 || data >= end) break;
    written = lseek(mapped.file.get(), data, SEEK_HOLE);
    if (written <= data) return kSlotsPerChunk;
    at = written;
  }
  return static_cast<uint32_t>((std::min(written, end) - begin + kSlotBytes - 1) / kSlotBytes);
}

void Drain::AppendChunk(const MappedSegment& mapped, uint32_t index, const ChunkReadResult& read,
                        uint64_t taken_ticks) {
  const auto* begin = reinterpret_cast<const ChunkBeginRecord*>(mapped.segment.Chunk(index));
  ChunkFact fact{index,
                 read.generation,
                 static_cast<uint16_t>(read.first),
                 read.content,
                 read.lost,
                 begin->process_serial,
                 begin->thread_serial,
                 taken_ticks};
  const uint32_t bytes = read.content * kSlotBytes;
  ChunkSummary summary;
  const uint32_t room = bytes >= kLeastSummarized ? sizeof(summary) : 0;
  uint8_t* payload =
      current_->Begin(FrameType::kChunk, mapped.number, static_cast<uint32_t>(sizeof(fact)) + bytes + room);
  memcpy(payload, &fact, sizeof(fact));
  memcpy(payload + sizeof(fact),
         reinterpret_cast<const uint8_t*>(mapped.segment.Chunk(index)) + read.first * kSlotBytes, bytes);
  uint16_t flags = writer_.CountRecords({payload, sizeof(fact) + bytes}, &current_counts_, &summary);
  if (room == 0) flags &= ~kFrameSummary;
  if ((flags & kFrameSummary) != 0) {
    memcpy(payload + sizeof(fact) + bytes, &summary, sizeof(summary));
  } else {
    current_->Shorten(room);
  }
  current_->Seal(flags);
  // Excludes the pad at the end and the record that begins the chunk: both are layout, not recorded by a thread.
  const uint32_t layout = (read.content < read.count ? 1 : 0) + (read.first == 0 && read.content > 0 ? 1 : 0);
  const uint32_t records = read.records - std::min(read.records, layout);
  current_records_ += records;
  records_.fetch_add(records, std::memory_order_relaxed);
}

uint64_t Drain::DrainSegment(MappedSegment* mapped) {
  const Segment& segment = mapped->segment;
  uint64_t taken = 0;
  const uint64_t taken_ticks = ReadTicks(clock_);
  const uint32_t high = std::min(__atomic_load_n(&segment.header->chunk_high, __ATOMIC_ACQUIRE), segment.chunk_count);
  if (mapped->readers.size() < high) {
    mapped->readers.resize(high);
    mapped->touched.resize(high);
  }
  // Chunks are drained in the order in which they were begun, so that the records of a thread stay in order.
  in_use_.clear();
  for (uint32_t i = 0; i < high; ++i) {
    const uint64_t state = __atomic_load_n(&segment.chunk_states[i], __ATOMIC_ACQUIRE);
    if (StateOfChunk(state) == ChunkState::kFree) continue;
    // While the first record is being written, tag and time are still those that the freeing of the chunk left: 0.
    const auto* begin = reinterpret_cast<const ChunkBeginRecord*>(segment.Chunk(i));
    const uint64_t ticks = __atomic_load_n(&begin->ticks, __ATOMIC_RELAXED);
    in_use_.emplace_back(ticks == 0 ? UINT64_MAX : ticks, i);
  }
  std::sort(in_use_.begin(), in_use_.end());
  for (const auto& [begun, i] : in_use_) {
    const uint64_t word = __atomic_load_n(&segment.chunk_states[i], __ATOMIC_ACQUIRE);
    if (StateOfChunk(word) == ChunkState::kFree) continue;
    bool owner_gone = false;
    if (!dead_.empty() && StateOfChunk(word) == ChunkState::kOwned) {
      const uint32_t thread = ThreadSlotOfChunk(word);
      if (thread < kThreadSlots) {
        owner_gone = dead_.count({mapped->number, segment.thread_slots[thread].process_serial}) != 0;
      }
    }
    const uint32_t limit = owner_gone ? WrittenSlots(*mapped, i) : kSlotsPerChunk;
    ChunkReadResult read;
    while (ReadChunk(segment, i, owner_gone, limit, &mapped->readers[i], &read)) {
      taken += read.content * kSlotBytes;
      if (!mapped->touched[i]) {
        mapped->touched[i] = true;
        ++touched_chunks_;
      }
      if (read.content > 0 || read.lost > 0) AppendChunk(*mapped, i, read, taken_ticks);
      const bool freed = FinishChunk(segment, i, read);
      if (freed) taken += kPassBytes * kPassChunkShare / segment.chunk_count;
      if (current_->size() >= kBlockBytes) HandOver(true);
      if (touched_chunks_ >= kMaxTouchedChunks) GiveBackPages();
      // Stops if the chunk was freed or is owned and read to its end. A closed chunk with a hole has more records after
      // the hole.
      if (freed || read.count == 0 || (!owner_gone && StateOfChunk(word) == ChunkState::kOwned)) break;
      // Only the launcher starts a new generation, by freeing the chunk. If it changed meanwhile, a hostile target
      // wrote it, and the loop could run forever.
      if (read.generation != GenerationOfChunk(word)) break;
    }
  }
  return taken;
}

// Gives the current buffer to the write thread. `force`: even if it is not full.
void Drain::HandOver(bool force) {
  if (current_->size() == 0 || (!force && current_->size() < kBlockBytes)) return;
  last_hand_over_ns_ = ReadMonotonic();
  std::unique_ptr<FrameBuffer> fresh;
  Block block;
  block.first_ticks = current_first_ticks_;
  block.last_ticks = ReadTicks(clock_);
  current_first_ticks_ = block.last_ticks;
  {
    std::unique_lock<std::mutex> lock(queue_mutex_);
    if (current_records_ > 0) WaitForRoom(&lock);
    // A stalled disk must neither fill the memory nor hold up the targets: records are dropped and counted. Facts are
    // kept: they are small and exist nowhere else.
    if (queued_bytes_ > kMaxQueuedBytes && current_records_ > 0) {
      too_fast_.fetch_add(current_records_, std::memory_order_relaxed);
      block.records_dropped = current_records_;
      block.dropped.Take(current_->bytes());
      current_records_ = 0;
      current_->RemoveChunks();
    } else {
      writer_.Add(current_counts_);
    }
    current_counts_ = RecordCounts();
    queued_bytes_ += current_->size();
    block.frames = std::move(current_);
    block.records = current_records_;
    queue_.push_back(std::move(block));
    queue_filled_.notify_all();
    if (!spare_.empty()) {
      fresh = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  current_records_ = 0;
  current_ = fresh != nullptr ? std::move(fresh) : std::make_unique<FrameBuffer>(kBlockBytes + kChunkBytes);
}

// While the queue is full, records stay in the segments, as long as these have room and the disk still takes blocks.
void Drain::WaitForRoom(std::unique_lock<std::mutex>* lock) {
  if (queued_bytes_ <= kMaxQueuedBytes) queue_stands_ = false;
  while (queued_bytes_ > kMaxQueuedBytes && !queue_stands_ && HaveRoom()) {
    const uint64_t written = blocks_written_;
    queue_stands_ = !block_written_.wait_for(*lock, std::chrono::milliseconds(kStandsMs),
                                             [&] { return blocks_written_ != written; });
  }
}

// Whether no segment is nearly full: of chunks, or of slots that only the next pass frees.
bool Drain::HaveRoom() const {
  if (ended_count_.load(std::memory_order_relaxed) >= kProcessSlots / 16) return false;
  for (const MappedSegment* mapped : pass_segments_) {
    const Segment& segment = mapped->segment;
    const uint32_t high = std::min(__atomic_load_n(&segment.header->chunk_high, __ATOMIC_ACQUIRE), segment.chunk_count);
    // Thread slots are freed between two passes.
    if (SlotRecorder::HasSlotsToFree(*mapped)) return false;
    const uint32_t most = segment.chunk_count / 16 * 15;
    if (high <= most) continue;
    uint32_t used = 0;
    for (uint32_t i = 0; i < high; ++i) {
      const uint64_t word = __atomic_load_n(&segment.chunk_states[i], __ATOMIC_RELAXED);
      used += StateOfChunk(word) != ChunkState::kFree ? 1 : 0;
    }
    if (used > most) return false;
  }
  return true;
}

void Drain::WriteLoop() {
  for (;;) {
    Block block;
    {
      std::unique_lock<std::mutex> lock(queue_mutex_);
      queue_filled_.wait(lock, [&] { return !queue_.empty() || queue_closed_; });
      if (queue_.empty()) break;
      block = std::move(queue_.front());
      queue_.pop_front();
    }
    if (block.records_dropped != 0) {
      writer_.NoteGap(GapCause::kSlowDisk, block.records_dropped, block.first_ticks, block.last_ticks, block.dropped);
    }
    if (block.frames != nullptr) {
      if (block.frames->size() > 0) {
        writer_.Write(block.frames->bytes(), block.records, block.first_ticks, block.last_ticks);
      }
      std::lock_guard<std::mutex> lock(queue_mutex_);
      queued_bytes_ -= block.frames->size();
      block.frames->Clear();
      // Keeps as many buffers as a burst needs while it lasts: page faults of new memory cost more than all work on the
      // buffer.
      if (spare_.size() < (queue_.empty() ? kSpareBlocks : kMaxSpareBlocks)) spare_.push_back(std::move(block.frames));
      if (queue_.empty() && spare_.size() > kSpareBlocks) spare_.resize(kSpareBlocks);
    }
    if (block.rotate) writer_.Rotate();
    writer_.Tidy(ReadTicks(clock_));
    if (block.flush != 0) {
      std::lock_guard<std::mutex> lock(mutex_);
      flush_written_ = block.flush;
      flushed_.notify_all();
    }
    std::lock_guard<std::mutex> lock(queue_mutex_);
    ++blocks_written_;
    block_written_.notify_all();
  }
  writer_.Finish();
  std::lock_guard<std::mutex> lock(queue_mutex_);
  write_ended_ = true;
  queue_emptied_.notify_all();
}

}  // namespace tbprof
