// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/heap_blocks.h"

#include <algorithm>
#include <utility>

#include "writer/base/median.h"

namespace tbprof {
namespace {

// Sums wrap, because a hostile target may report any size.
int64_t Plus(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

}  // namespace

HeapBlocks::HeapBlocks(uint64_t open, uint64_t close, size_t* room)
    : open_(open), close_(close), room_(room), growth_(open, close) {}

uint32_t HeapBlocks::SiteOf(uint64_t address, uint32_t python) {
  std::pair<uint64_t, uint32_t> key{address, python};
  if (key == last_site_key_ && !sites_.empty()) return last_site_;
  if (sites_.size() >= kMaxSites && !site_ids_.contains(key)) key.second = 0;
  if (sites_.size() >= kMaxSites && !site_ids_.contains(key)) key = {};
  const auto [entry, added] = site_ids_.try_emplace(key, static_cast<uint32_t>(sites_.size()));
  if (added) {
    sites_.emplace_back();
    sites_.back().address = key.first;
    sites_.back().python = key.second;
  }
  last_site_key_ = key;
  return last_site_ = entry->second;
}

uint32_t HeapBlocks::ThreadOf(uint32_t serial) {
  const auto [entry, added] = thread_ids_.try_emplace(serial, static_cast<uint32_t>(threads_.size()));
  if (added) threads_.emplace_back();
  return entry->second;
}

void HeapBlocks::BeginFrame(const ChunkFact& chunk) {
  if (chunk.taken_ticks != pass_) {
    Digest(pass_);
    // All calls from before the start of the pass that ends here are known now.
    SpreadAll(pass_);
    Apply(pass_);
    pass_before_ = pass_;
    pass_ = chunk.taken_ticks;
  }
  Claim& claim = claims_[chunk.chunk];
  if (claim.generation != chunk.generation || chunk.first_slot == 0) claim = {chunk.generation, 0};
  chunk_ = chunk.chunk;
  begins_ = chunk.first_slot == 0;
  pieces_.push_back({ThreadOf(chunk.thread_serial), claim.ticks, pass_before_, records_.size(), records_.size()});
}

void HeapBlocks::Time(uint64_t ticks) {
  if (std::exchange(begins_, false)) claims_[chunk_].ticks = pieces_.back().claimed = ticks;
  AllocationRecord time{};
  time.tag.kind = RecordKind::kPad;
  time.ticks = ticks;
  Append(time);
}

void HeapBlocks::SetPython(uint32_t place) {
  begins_ = false;
  AllocationRecord python{};
  python.tag.kind = RecordKind::kPythonStack;
  python.address = place;
  Append(python);
}

void HeapBlocks::Append(const AllocationRecord& record) {
  records_.push_back(record);
  pieces_.back().end = records_.size();
}

void HeapBlocks::Take(const AllocationRecord& record) {
  begins_ = false;
  Append(record);
  if (records_.size() + buffer_.size() < kMaxBuffered) return;
  // A pass has more calls than fit: the older half is applied, although earlier calls may still come.
  const Piece piece = pieces_.back();
  Digest(UINT64_MAX);
  pieces_.push_back({piece.thread, piece.claimed, piece.after, 0, 0});
  SpreadAll(0);
  if (buffer_.empty()) return;
  std::vector<uint64_t> times;
  times.reserve(buffer_.size());
  for (const Call& waiting : buffer_) times.push_back(waiting.ticks);
  Apply(Median(std::move(times)));
}

// A pass reads chunks by number, but threads move between chunks in any order of numbers: the end of one chunk may be
// read in a later pass than the begin of the next, which was claimed after its pass had begun.
void HeapBlocks::Digest(uint64_t claimed) {
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.claimed < b.claimed;
  });
  std::vector<Piece> kept;
  std::vector<AllocationRecord> kept_records;
  for (const Piece& piece : pieces_) {
    const auto begin = records_.begin() + static_cast<ptrdiff_t>(piece.begin);
    const auto end = records_.begin() + static_cast<ptrdiff_t>(piece.end);
    if (piece.claimed > claimed) {
      kept.push_back({piece.thread, piece.claimed, piece.after, kept_records.size(), 0});
      kept_records.insert(kept_records.end(), begin, end);
      kept.back().end = kept_records.size();
      continue;
    }
    Thread& thread = threads_[piece.thread];
    if (thread.last != 0 && thread.untimed.empty()) thread.last = std::max(thread.last, piece.after);
    for (auto record = begin; record != end; ++record) {
      if (record->tag.kind == RecordKind::kPad) {
        Spread(piece.thread, record->ticks);
      } else if (record->tag.kind == RecordKind::kPythonStack) {
        thread.python = static_cast<uint32_t>(record->address);
      } else {
        DigestRecord(*record, piece.thread);
      }
    }
  }
  pieces_ = std::move(kept);
  records_ = std::move(kept_records);
}

void HeapBlocks::DigestRecord(const AllocationRecord& record, uint32_t thread) {
  Call call{};
  call.thread = thread;
  call.address = record.address & kLow48;
  call.size = SizeOf(record);
  call.release = (record.tag.flags & kRecordRelease) != 0;
  // A release counts at the site that allocated the block.
  call.site = SiteOf(record.call_site & kLow48, call.release ? 0 : threads_[thread].python);
  call.restored = (record.tag.flags & kRecordFailed) != 0;
  const uint64_t low = record.ticks & kLow48;
  Thread& state = threads_[thread];
  if (low == 0) {
    if (state.untimed.empty()) with_untimed_.push_back(thread);
    state.untimed.push_back(buffer_.size());
  } else {
    constexpr uint64_t kWrap = kLow48 + 1;
    uint64_t ticks = (state.last & ~kLow48) | low;
    if (ticks + kWrap / 2 < state.last) ticks += kWrap;
    if (ticks > state.last + kWrap / 2 && ticks >= kWrap) ticks -= kWrap;
    Spread(thread, ticks);
    call.ticks = state.last;
  }
  buffer_.push_back(call);
}

void HeapBlocks::Spread(uint32_t index, uint64_t until) {
  Thread& thread = threads_[index];
  // A signal handler's record follows the record that it interrupts, and may have an earlier time.
  until = std::max(until, thread.last);
  if (!thread.untimed.empty()) {
    // Before the first time of a thread there is no start to spread from.
    const uint64_t width = thread.last == 0 ? 0 : until - thread.last;
    totals_.widest_ticks = std::max(totals_.widest_ticks, width);
    const double step = static_cast<double>(width) / static_cast<double>(thread.untimed.size() + 1);
    double offset = step;
    for (const size_t place : thread.untimed) {
      buffer_[place].ticks = until - width + std::min(static_cast<uint64_t>(offset), width);
      offset += step;
    }
    thread.untimed.clear();
  }
  thread.last = until;
}

void HeapBlocks::SpreadAll(uint64_t until) {
  // All recorded calls were made before the close, apart from the time that a hook takes.
  for (const uint32_t thread : with_untimed_) Spread(thread, std::min(until, std::max(close_, uint64_t{1}) - 1));
  with_untimed_.clear();
}

void HeapBlocks::Apply(uint64_t until) {
  const auto before = [](const Call& a, const Call& b) { return a.ticks < b.ticks; };
  if (!std::is_sorted(buffer_.begin(), buffer_.end(), before)) {
    std::stable_sort(buffer_.begin(), buffer_.end(), before);
  }
  size_t done = 0;
  while (done < buffer_.size() && buffer_[done].ticks <= until) ApplyCall(buffer_[done++]);
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(done));
  // Calls without a partner by now never get one: the block is from before the window, or a record is lost.
  const auto is_old = [&](const auto& entry) { return entry.second.latest < applied_; };
  absl::erase_if(early_, is_old);
  absl::erase_if(owed_, is_old);
  applied_ = until;
}

void HeapBlocks::ApplyCall(const Call& call) {
  if (call.ticks < open_ || call.ticks >= close_) return;
  const auto size = static_cast<int64_t>(call.size);
  if (call.release) {
    ++totals_.releases;
    Went(call);
    SetLive(Plus(totals_.live_bytes, -size), call.ticks);
    return;
  }
  if (call.restored) {
    // Neither an allocation nor a release: this record undoes the release before it.
    if (totals_.releases > 0) --totals_.releases;
  } else {
    ++totals_.allocations;
    Site& site = sites_[call.site];
    ++site.calls;
    site.bytes += call.size;
  }
  Came(call);
  SetLive(Plus(totals_.live_bytes, size), call.ticks);
}

bool HeapBlocks::TakeUnpaired(absl::flat_hash_map<uint64_t, Unpaired>* calls, uint64_t address) {
  if (calls->empty()) return false;
  const auto found = calls->find(address);
  if (found == calls->end()) return false;
  if (--found->second.calls == 0) calls->erase(found);
  return true;
}

void HeapBlocks::Came(const Call& call) {
  threads_[call.thread].latest_block = call.address;
  if (TakeUnpaired(&early_, call.address)) {
    ++totals_.ambiguous;
    // The release of this block was counted as one of a block from before the window.
    if (totals_.earlier > 0) --totals_.earlier;
    return;
  }
  const auto known = blocks_.find(call.address);
  if (known != blocks_.end()) {
    ++totals_.ambiguous;
    Unpaired& owed = owed_[call.address];
    owed = {owed.calls + 1, call.ticks};
    Remove(call.address, known->second, call.ticks);
  }
  if (*room_ == 0) {
    ++totals_.not_followed;
    return;
  }
  --*room_;
  blocks_[call.address] = {call.size, call.site};
  ++totals_.live_blocks;
  Change(call.site, static_cast<int64_t>(call.size), 1, call.ticks);
}

void HeapBlocks::Went(const Call& call) {
  const uint64_t latest = std::exchange(threads_[call.thread].latest_block, 0);
  if (TakeUnpaired(&owed_, call.address)) return;
  const auto known = blocks_.find(call.address);
  if (known == blocks_.end()) {
    // If there was no room for all blocks, most of these releases are of blocks that are not followed.
    if (totals_.not_followed > 0) return;
    ++totals_.earlier;
    if (threads_.size() > 1) {
      Unpaired& early = early_[call.address];
      early = {early.calls + 1, call.ticks};
    }
    return;
  }
  if (latest == call.address) {
    ++totals_.temporary;
    ++sites_[known->second.site].temporary;
  }
  Remove(call.address, known->second, call.ticks);
}

void HeapBlocks::Remove(uint64_t address, const Block& block, uint64_t ticks) {
  const Block gone = block;
  ++*room_;
  --totals_.live_blocks;
  Change(gone.site, -static_cast<int64_t>(gone.size), -1, ticks);
  blocks_.erase(address);
}

// A site that did not change since the peak still holds what it held at the peak.
void HeapBlocks::Change(uint32_t index, int64_t bytes, int blocks, uint64_t ticks) {
  Site& site = sites_[index];
  if (site.peak_number != peak_number_) {
    site.peak_bytes = site.live_bytes;
    site.peak_blocks = site.live_blocks;
    site.peak_number = peak_number_;
  }
  site.live_bytes = Plus(site.live_bytes, bytes);
  site.live_blocks += static_cast<uint64_t>(static_cast<int64_t>(blocks));
  growth_.Add(index, ticks, bytes, blocks);
}

void HeapBlocks::SetLive(int64_t bytes, uint64_t ticks) {
  totals_.live_bytes = bytes;
  if (bytes > totals_.peak_bytes) {
    totals_.peak_bytes = bytes;
    totals_.peak_ticks = ticks;
    ++peak_number_;
  }
  const auto part = [&](uint64_t at) { return (at - open_) / ((close_ - open_) / kCurveParts + 1); };
  if (curve_.empty() || part(ticks) > part(curve_.back().ticks)) {
    curve_.push_back({ticks, bytes});
  } else if (bytes > curve_.back().bytes) {
    curve_.back() = {ticks, bytes};
  }
}

void HeapBlocks::Finish() {
  Digest(UINT64_MAX);
  SpreadAll(pass_);
  Apply(UINT64_MAX);
  for (Site& site : sites_) {
    if (site.peak_number != peak_number_) {
      site.peak_bytes = site.live_bytes;
      site.peak_blocks = site.live_blocks;
    }
    site.peak_number = peak_number_;
  }
}

}  // namespace tbprof
