// SPDX-License-Identifier: Apache-2.0
//
// Converts allocations and releases of a device's memory, which arrive in any order, to bytes in use over time.
//
// Process: converter.
#ifndef TBPROF_WRITER_CONVERT_GPU_MEMORY_H_
#define TBPROF_WRITER_CONVERT_GPU_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace tbprof {

class GpuMemoryTrack {
 public:
  struct Change {
    uint64_t ticks;
    uint64_t address;
    uint64_t bytes;
    uint32_t owner;  // the process of the address
    bool is_release;
  };
  struct Sample {
    uint64_t ticks;
    int64_t bytes;
  };

  // Returns false if there are too many changes already.
  bool Add(const Change& change);
  // Sorted by time. A release of memory that was allocated before recording began changes nothing.
  std::vector<Sample> Samples();
  bool empty() const { return changes_.empty(); }

 private:
  std::vector<Change> changes_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_MEMORY_H_
