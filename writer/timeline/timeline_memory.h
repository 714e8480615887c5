// SPDX-License-Identifier: Apache-2.0
//
// The contents of the memory of a process, and of a device.
//
// Process: converter. Plain structs.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_MEMORY_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

// The memory that one place of the program holds.
struct HeldBytes {
  StringId python = 0;           // `train.py:42 remember`; 0: not known
  uint32_t python_stack = 0;     // index into PythonTimeline::stacks, whose innermost frame is that line; 0: none
  std::vector<StringId> frames;  // native, innermost first: `function (file:line)`
  int64_t bytes = 0;
  int64_t blocks = 0;
};

enum class MemoryBasis : uint8_t {
  kNone,     // nothing is known about the blocks
  kExact,    // each block was recorded
  kSampled,  // sampled blocks were recorded: the bytes of places are estimates
};

struct MemoryGrowth {
  int64_t from_ps = 0, to_ps = 0;
  int64_t bytes = 0;            // growth of the heap between the two
  uint64_t steps = 0;           // between the two; 0: not known
  std::vector<HeldBytes> rows;  // places that grew, by bytes, largest first
};

struct HeldMemory {
  MemoryBasis basis = MemoryBasis::kNone;
  bool lower_bound = false;  // of peak_bytes: the heap was not counted from its start, or not all of it
  // The library whose own `operator new` gives out C++'s memory, past the hooks of malloc; 0: none.
  StringId own_new = 0;
  int64_t peak_bytes = 0;  // the highest in the capture
  int64_t peak_ps = 0;
  // By bytes, largest first; together at most peak_bytes. Empty if `lost` is not 0: then it is unknown.
  std::vector<HeldBytes> at_peak;
  int64_t earlier_bytes = 0;  // part of peak_bytes from before the capture or inherited by fork; not in at_peak
  uint64_t samples = 0;       // from which at_peak was computed; 0: each block is known
  uint64_t lost = 0;          // lower bound of the process's lost records
  bool too_many = false;      // `lost` are sampled blocks for which there was no room to follow them
  std::optional<MemoryGrowth> growth;
  std::optional<bool> grows;  // whether it grows from step to step; none: no evidence for either
};

// The memory that the kernel has given to a process.
struct ResidentPoint {
  int64_t at_ps = 0;
  int64_t anonymous_bytes = 0;
  int64_t file_bytes = 0;     // of mapped files, which the kernel can drop
  int64_t shared_bytes = 0;   // shared memory
  int64_t swapped_bytes = 0;  // of its own, in swap
  // What the kernel cannot drop. Shared memory counts in each process that touches it, and a page of a fork's parent in
  // each child.
  int64_t own_bytes() const { return anonymous_bytes + shared_bytes + swapped_bytes; }
};

struct ResidentMemory {
  std::vector<ResidentPoint> points;   // in order of time; empty: not known
  int64_t peak_bytes = 0;              // the most that was resident until the last reading, with files
  ResidentPoint highest;               // the one with the most own bytes
  std::optional<MemoryGrowth> growth;  // of the own bytes; without rows
  std::optional<bool> grows;           // likewise, as HeldMemory::grows
  // Own bytes beyond the most live bytes of the heap in the second before. 0: there are none, or the heap is not known.
  int64_t beyond_bytes = 0;
  ResidentPoint beyond_at;                    // where they are most
  std::optional<MemoryGrowth> beyond_growth;  // if they grow
};

// Memory of a device: held by tensors, from PyTorch's allocator, or by allocations of the driver.
struct DeviceMemory {
  uint32_t process = 0;  // index into Timeline::processes
  uint32_t device_type = 0;
  uint32_t device = 0;    // number given by the source
  bool by_torch = false;  // false: by the driver's calls, and `device` is an index into Timeline::gpu_devices
  bool complete = true;   // false: not all reports are kept, and at_peak is incomplete
  int64_t peak_bytes = 0;
  int64_t reserved_bytes = 0;  // by the framework at the peak; 0: not known
  int64_t peak_ps = 0;
  std::vector<HeldBytes> at_peak;  // `frames` has the framework's operation; by bytes, largest first
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_MEMORY_H_
