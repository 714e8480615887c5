// SPDX-License-Identifier: Apache-2.0
//
// Selects the events that fit into a budget of bytes: the longest. All events from one length on are kept. If very many
// events have nearly the same length, an even part of them is kept, too, so that the budget is used and these events do
// not disappear completely.
//
//   LengthHistogram histogram;
//   for (const Event& event : events) histogram.Add(length, bytes);
//   cut = histogram.CutTo(most_bytes, cut);       // keeps a part of what `cut` kept
//   std::erase_if(events, [&](const Event& event) { return !cut.Keeps(length, start); });
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_EVENT_BUDGET_H_
#define TBPROF_WRITER_CONVERT_EVENT_BUDGET_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbprof {

// Bytes of an event in the xplane file, measured on real runs. In memory no event counts for less.
inline constexpr uint64_t kBytesPerEvent = 24;

// The number of events that are kept of a file of `max_profile_size` bytes.
inline constexpr uint64_t MostEvents(uint64_t max_profile_size) {
  return std::max<uint64_t>(max_profile_size / kBytesPerEvent, 1000);
}

// Lengths and starts may have any unit, the same for all events.
class LengthCut {
 public:
  // For events of the length that is kept in part, `start` decides: as good as random, and the same in every pass.
  bool Keeps(uint64_t length, uint64_t start) const {
    if (length >= all_from_) return true;
    return length >= some_from_ && static_cast<uint32_t>(start * 0x9e3779b97f4a7c15ull >> 32) < share_;
  }
  bool cuts() const { return all_from_ > 0; }
  uint64_t shortest() const { return some_from_; }  // the shortest length that is kept
  uint64_t all_from() const { return all_from_; }   // all are kept from here on; from shortest() to here, a part

 private:
  friend class LengthHistogram;
  uint64_t all_from_ = 0, some_from_ = 0;
  uint64_t share_ = kAll;  // of 2^32, for lengths in [some_from_, all_from_)
  static constexpr uint64_t kAll = uint64_t{1} << 32;
};

// Bytes of events by length, in buckets of at most 1/64 of the length.
class LengthHistogram {
 public:
  LengthHistogram() : bytes_(size_t{65 - kBits} << kBits) {}

  void Add(uint64_t length, uint64_t bytes) { bytes_[BucketOf(length)] += bytes; }

  // Returns a cut that leaves at most about `most` bytes. `before`: the cut that the added events have passed.
  LengthCut CutTo(uint64_t most, const LengthCut& before) const {
    uint64_t left = 0;
    size_t bucket = bytes_.size();
    while (bucket > 0 && left + bytes_[bucket - 1] <= most) left += bytes_[--bucket];
    LengthCut cut;
    if (bucket == 0) return before;
    cut.all_from_ = cut.some_from_ = LowestIn(bucket);
    const uint64_t crowd = bytes_[bucket - 1];
    if (crowd > most / kShareOfCrowd) {
      cut.some_from_ = LowestIn(bucket - 1);
      const uint64_t passed = cut.some_from_ >= before.all_from_ ? LengthCut::kAll : before.share_;
      cut.share_ = static_cast<uint64_t>(static_cast<double>(passed) * static_cast<double>(most - left) /
                                         static_cast<double>(crowd));
    }
    return cut;
  }

 private:
  static constexpr uint32_t kBits = 6;
  // A bucket of less than 1 / kShareOfCrowd of the budget is removed as a whole.
  static constexpr uint64_t kShareOfCrowd = 8;

  static size_t BucketOf(uint64_t length) {
    const auto width = static_cast<uint32_t>(std::bit_width(length));
    const uint32_t above = width > kBits + 1 ? width - kBits - 1 : 0;
    return (uint64_t{above} << kBits) + (length >> above);
  }
  static uint64_t LowestIn(size_t bucket) {
    const size_t above = bucket < size_t{2} << kBits ? 0 : (bucket >> kBits) - 1;
    return static_cast<uint64_t>(bucket - (above << kBits)) << above;
  }

  std::vector<uint64_t> bytes_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_EVENT_BUDGET_H_
