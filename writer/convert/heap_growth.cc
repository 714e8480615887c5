// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/heap_growth.h"

#include <utility>

namespace tbprof {
namespace {

// Sums wrap, because a hostile target may report any size.
int64_t PlusWrapped(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

void HeapGrowth::Add(uint32_t site, uint64_t ticks, int64_t bytes, int64_t blocks) {
  if (latest_.size() <= site) latest_.resize(site + size_t{1});
  auto part = static_cast<uint32_t>((ticks - open_) / width_);
  if (entries_.size() >= most_ && part > 0) {
    Coarsen();
    part = static_cast<uint32_t>((ticks - open_) / width_);
  }
  const uint32_t latest = latest_[site];
  if (latest != 0 && entries_[latest - 1].part == part) {
    Entry& entry = entries_[latest - 1];
    entry.bytes = PlusWrapped(entry.bytes, bytes);
    entry.blocks = PlusWrapped(entry.blocks, blocks);
    return;
  }
  entries_.push_back({site, part, bytes, blocks});
  latest_[site] = static_cast<uint32_t>(entries_.size());
}

void HeapGrowth::Coarsen() {
  width_ *= 2;
  latest_.assign(latest_.size(), 0);
  for (const Entry& entry : std::exchange(entries_, {})) {
    Add(entry.site, open_ + uint64_t{entry.part / 2} * width_, entry.bytes, entry.blocks);
  }
}

uint64_t HeapGrowth::BorderAt(uint64_t ticks) const {
  if (ticks <= open_) return open_;
  return open_ + ((ticks - open_ - 1) / width_ + 1) * width_;
}

std::vector<HeapGrowth::Change> HeapGrowth::Between(uint64_t from, uint64_t to) const {
  std::vector<Change> changes(latest_.size());
  for (const Entry& entry : entries_) {
    const uint64_t begin = open_ + entry.part * width_;
    if (begin < from || begin >= to) continue;
    changes[entry.site].bytes = PlusWrapped(changes[entry.site].bytes, entry.bytes);
    changes[entry.site].blocks = PlusWrapped(changes[entry.site].blocks, entry.blocks);
  }
  return changes;
}

}  // namespace tbprof
