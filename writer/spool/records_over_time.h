// SPDX-License-Identifier: Apache-2.0
//
// When the records of a spool were made, in bins of time that widen with its length.
//
//   RecordsOverTime over_time;
//   for each frame: over_time.Add(taken_ticks, records);
//   uint64_t ticks = over_time.TimeOf(0.5, open, close);   // half of the window's records are earlier
//
// Process: converter. Memory: constant. Untrusted: all times and numbers.
#ifndef TBPROF_WRITER_SPOOL_RECORDS_OVER_TIME_H_
#define TBPROF_WRITER_SPOOL_RECORDS_OVER_TIME_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbprof {

class RecordsOverTime {
 public:
  void Add(uint64_t ticks, uint64_t records) {
    if (bins_.empty()) {
      bins_.resize(kBins);
      origin_ = ticks;
    }
    const uint64_t since = ticks - std::min(ticks, origin_);
    while (since / width_ >= kBins) Widen();
    bins_[since / width_] += records;
  }

  // The time at which `share` of the records in [from, to) had been made. Without records: that share of the time.
  uint64_t TimeOf(double share, uint64_t from, uint64_t to) const {
    to = std::max(from, to);
    double all = 0;
    for (size_t bin = 0; bin < bins_.size(); ++bin) all += InBin(bin, from, to);
    double before = 0;
    for (size_t bin = 0; bin < bins_.size(); ++bin) {
      const double here = InBin(bin, from, to);
      if (here <= 0 || before + here < share * all) {
        before += here;
        continue;
      }
      const double within = (share * all - before) / here * static_cast<double>(width_);
      return std::clamp(origin_ + bin * width_ + static_cast<uint64_t>(within), from, to);
    }
    return from + static_cast<uint64_t>(share * static_cast<double>(to - from));
  }

 private:
  static constexpr size_t kBins = 4096;

  void Widen() {
    for (size_t i = 0; i < kBins / 2; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0);
    width_ *= 2;
  }
  // A bin belongs to the interval that has its middle.
  double InBin(size_t bin, uint64_t from, uint64_t to) const {
    const uint64_t middle = origin_ + bin * width_ + width_ / 2;
    return middle >= from && middle < to ? static_cast<double>(bins_[bin]) : 0;
  }

  std::vector<uint64_t> bins_;
  uint64_t origin_ = 0;
  uint64_t width_ = 1u << 20;  // ticks
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_RECORDS_OVER_TIME_H_
