// SPDX-License-Identifier: Apache-2.0
//
// Sums of GPU records, for the parts of a spool that are dropped: the numbers that GpuBuilder would have counted.
//
//   GpuTotals totals;
//   for each GPU record of a part: totals.Add(segment, process_serial, record);
//   frames->Append(FrameType::kGpuTotals, ...totals.Rows());
//
// Bounded: kernels beyond kMostRows are summed under name 0 of their device, which no kernel has. Of the oldest device
// memory, only allocations that are in use later are kept.
//
// Process: launcher. Untrusted records; the reader of the rows checks the times.
#ifndef TBPROF_WRITER_SPOOL_GPU_TOTALS_H_
#define TBPROF_WRITER_SPOOL_GPU_TOTALS_H_

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/base/interval_union.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool.h"

namespace tbprof {

inline bool IsDeviceMemory(uint8_t memory_kind) { return memory_kind >= 3 && memory_kind <= 7; }

// Host threads wait in these calls; a stream that waits for an event is not a host wait.
inline bool IsHostWait(uint32_t synchronization_type) { return synchronization_type != 2; }

class GpuTotals {
 public:
  static constexpr size_t kMostRows = 1u << 14;
  static constexpr size_t kMostBusy = 64;  // pairs of process and device
  static constexpr size_t kMostMemory = 1u << 13;

  void Add(uint32_t segment, uint32_t process_serial, const RecordView& record);
  std::vector<GpuTotalRow> Rows();
  // Adds only allocations and releases of device memory, for parts of which nothing else is counted.
  void AddMemory(uint32_t segment, uint32_t process_serial, const RecordView& record);
  const std::vector<GpuMemoryRow>& memory() const { return memory_; }
  // A dropped part with memory records could not be read.
  void LeaveOutMemory() { ++memory_left_out_; }
  // Number of rows beyond the bound, and of parts that could not be read: the bytes in use lack them.
  uint64_t memory_left_out() const { return memory_left_out_; }

 private:
  struct Key {
    uint32_t segment, process;
    GpuTotalKind kind;
    uint16_t device;
    uint32_t id;
    friend bool operator==(const Key& a, const Key& b) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.segment, key.process, key.kind, key.device, key.id);
    }
  };
  struct Sum {
    uint64_t calls = 0, bytes = 0, ns = 0, longest = 0, untimed = 0, unfinished = 0;
  };
  Sum* SumOf(Key key);
  void AddWork(const Key& key, uint64_t start, uint64_t end, uint64_t bytes);
  void AddCall(const Key& key, uint64_t ns, uint64_t bytes = 0);

  void ForgetOldMemory();

  std::vector<GpuMemoryRow> memory_;
  uint64_t memory_left_out_ = 0;
  absl::flat_hash_map<Key, Sum> sums_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint16_t>, IntervalUnion> busy_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_GPU_TOTALS_H_
