// SPDX-License-Identifier: Apache-2.0
//
// The part of a window of which all events are kept, however short: there the viewer shows everything, and steps can be
// inferred. It is the whole window until it takes more than its share of the budget; then it becomes shorter, around a
// time in the middle of the program's work.
//
//   FullDetail detail;
//   detail.Begin(open, close, middle);
//   if (detail.Contains(event.start)) ...
//   detail.ShrinkTo(most_bytes, [&](const auto& add) { for (const Event& event : events) add(event.start, bytes); });
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_FULL_DETAIL_H_
#define TBPROF_WRITER_CONVERT_FULL_DETAIL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbprof {

// Times may have any unit, the same for all events.
class FullDetail {
 public:
  // Without a call, there is no such part.
  void Begin(uint64_t open, uint64_t close, uint64_t middle) {
    close = std::max(open, close);
    middle_ = std::clamp(middle, open, close);
    radius_ = std::max(middle_ - open, close - middle_);
    radius_ += radius_ < UINT64_MAX ? 1 : 0;
    shrunk_ = false;
  }

  bool Contains(uint64_t time) const { return DistanceOf(time) < radius_; }
  bool shrunk() const { return shrunk_; }
  uint64_t start() const { return middle_ - std::min(middle_, radius_); }
  uint64_t end() const { return middle_ + std::min(radius_, UINT64_MAX - middle_); }

  // `for_each(add)` must call `add(time, bytes)` for each event; others than those of this part are ignored. It may
  // be called several times. At most `most` bytes are in this part then.
  template <typename ForEach>
  void ShrinkTo(uint64_t most, ForEach&& for_each) {
    while (radius_ > 0) {
      std::vector<uint64_t> bytes(kBins);
      const uint64_t width = radius_ / kBins + 1;
      for_each([&](uint64_t time, uint64_t size) {
        if (Contains(time)) bytes[DistanceOf(time) / width] += size;
      });
      uint64_t left = 0;
      size_t bin = 0;
      while (bin < kBins && left + bytes[bin] <= most) left += bytes[bin++];
      if (bin == kBins) return;
      shrunk_ = true;
      radius_ = std::min(radius_, bin * width);
      // Too many events are in the innermost bin: the next turn divides it.
      if (bin == 0 && width > 1) radius_ = width;
    }
  }

 private:
  static constexpr size_t kBins = 1024;

  uint64_t DistanceOf(uint64_t time) const { return time < middle_ ? middle_ - time : time - middle_; }

  uint64_t middle_ = 0, radius_ = 0;
  bool shrunk_ = true;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_FULL_DETAIL_H_
