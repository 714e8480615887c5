// SPDX-License-Identifier: Apache-2.0
//
// Changes of the bytes that each site holds, by parts of the window: for the growth since a moment that is known only
// after all records are read.
//
// Process: converter, one thread. Memory: bounded by kMostEntries; beyond it pairs of parts are merged.
#ifndef TBPROF_WRITER_CONVERT_HEAP_GROWTH_H_
#define TBPROF_WRITER_CONVERT_HEAP_GROWTH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbprof {

class HeapGrowth {
 public:
  static constexpr uint32_t kParts = 1024;
  static constexpr size_t kMostEntries = 1u << 20;

  struct Change {
    int64_t bytes = 0;
    int64_t blocks = 0;
  };

  HeapGrowth(uint64_t open, uint64_t close, size_t most_entries = kMostEntries)
      : open_(open), width_((close > open ? close - open : 1) / kParts + 1), most_(most_entries) {}

  // Call in order of `ticks`, within the window.
  void Add(uint32_t site, uint64_t ticks, int64_t bytes, int64_t blocks);
  // The nearest border between parts at or after `ticks`.
  uint64_t BorderAt(uint64_t ticks) const;
  // The changes by site, between two such borders.
  std::vector<Change> Between(uint64_t from, uint64_t to) const;

 private:
  struct Entry {
    uint32_t site;
    uint32_t part;
    int64_t bytes;
    int64_t blocks;
  };
  void Coarsen();

  const uint64_t open_;
  uint64_t width_;
  const size_t most_;
  std::vector<Entry> entries_;    // sorted by part
  std::vector<uint32_t> latest_;  // by site, 1 + index of its latest entry; 0: none
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HEAP_GROWTH_H_
