// SPDX-License-Identifier: Apache-2.0
//
// Extrapolates PyTorch's recorded operations, if the library has sampled them (preload/torch_sampling.h), to totals of
// a process and of each kind of operation.
//
//   TorchTotals totals(facts.torch_sampling);
//   totals.Take({type, start, ticks, self_ticks});   // each operation that was recorded
//   totals.Finish(open, close);                      // then totals.Of(type), totals.Weights()
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_SPOOL_TORCH_SAMPLING_H_
#define TBPROF_WRITER_SPOOL_TORCH_SAMPLING_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "wire/records.h"

namespace tbprof {

struct TorchSamplingAt {
  uint64_t ticks = 0;
  TorchSamplingFact fact{};
};

struct RecordedOperation {
  uint16_t type = 0;
  uint64_t start = 0;  // ticks
  uint64_t ticks = 0, self_ticks = 0;
};

struct EstimatedTotal {
  uint64_t calls = 0;
  double ticks = 0, self_ticks = 0;
};

class TorchTotals {
 public:
  // In any order.
  explicit TorchTotals(std::vector<TorchSamplingAt> facts);

  void Take(const RecordedOperation& operation);

  // Computes the totals of [open, close), in ticks; to be called once. The skipped operations of a class of units are
  // distributed over the recorded units of that class.
  void Finish(uint64_t open, uint64_t close);
  bool sampled() const { return skipped_ > 0; }
  uint64_t recorded() const { return recorded_; }
  uint64_t skipped() const { return skipped_; }  // estimated
  EstimatedTotal Of(uint16_t type) const;
  struct Weight {
    uint64_t ticks = 0;
    double weight = 1;
    bool midway = false;
  };
  // The weights of recorded operations, each with the time from which it is valid.
  std::vector<Weight> Weights() const;

 private:
  struct Sums {
    double calls = 0, ticks = 0, self_ticks = 0;
  };
  // One more for operations that belong to no unit.
  static constexpr size_t kClasses = kTorchClassMask + 2;
  struct Class {
    Sums certain, weighted;  // always recorded; chosen by chance, each multiplied by its weight
  };
  // For all types: the numbers of recorded and skipped operations, and the factors by which each is still to be
  // multiplied.
  struct Calls {
    double certain = 0, chosen = 0, weighted = 0, skipped = 0;
    double of_certain = 1, of_weighted = 1;
  };
  // The time from one fact to the next.
  struct Interval {
    uint64_t from = 0;
    uint32_t weight = 1;
    uint8_t number = kClasses - 1;
    bool midway = false;
  };
  const Interval& IntervalAt(uint64_t ticks);

  std::vector<TorchSamplingAt> facts_;  // in order of time
  std::vector<Interval> intervals_;
  size_t at_ = 0;
  absl::flat_hash_map<uint16_t, std::array<Class, kClasses>> types_;
  std::array<Calls, kClasses> calls_;
  uint64_t recorded_ = 0, skipped_ = 0;
};

// `12 %`, `99.4 %`.
std::string SharePercent(double share);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_TORCH_SAMPLING_H_
