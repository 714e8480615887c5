// SPDX-License-Identifier: Apache-2.0
//
// What filled the memory of a process, and of a device.
//
// Process: converter. Plain structs.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_MEMORY_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

// What one place of the program holds.
struct HeldBytes {
  StringId python = 0;           // `train.py:42 remember`; 0: not known
  uint32_t python_stack = 0;     // index into PythonTimeline::stacks, whose innermost frame is that line; 0: none
  std::vector<StringId> frames;  // native, innermost first: `function (file:line)`
  int64_t bytes = 0;
  int64_t blocks = 0;
};

enum class MemoryBasis : uint8_t {
  kNone,     // nothing is known of its blocks
  kExact,    // each block was recorded
  kSampled,  // sampled blocks were: what places hold is an estimate
};

struct MemoryGrowth {
  int64_t from_ps = 0, to_ps = 0;
  int64_t bytes = 0;            // of the heap between the two
  uint64_t steps = 0;           // between the two; 0: not known
  std::vector<HeldBytes> rows;  // what grew, by bytes, most first
};

struct HeldMemory {
  MemoryBasis basis = MemoryBasis::kNone;
  bool lower_bound = false;  // of peak_bytes: the heap was counted from later than its start
  int64_t peak_bytes = 0;    // the highest in the capture
  int64_t peak_ps = 0;
  // By bytes, most first; together at most peak_bytes. Empty where `lost` is not 0: then it is not known.
  std::vector<HeldBytes> at_peak;
  int64_t earlier_bytes = 0;  // of peak_bytes: from before the capture, or inherited by fork, and not in at_peak
  uint64_t samples = 0;       // that at_peak was made of; 0 where each block is known
  uint64_t lost = 0;          // records of the process that are missing, at least
  std::optional<MemoryGrowth> growth;
  std::optional<bool> grows;  // from step to step; none: there is no evidence for either
};

// What tensors hold of a device, by PyTorch's allocator, or the driver's allocations.
struct DeviceMemory {
  uint32_t process = 0;  // index into Timeline::processes
  uint32_t device_type = 0;
  uint32_t device = 0;    // as the source numbers it
  bool by_torch = false;  // else by the driver's calls: index into Timeline::gpu_devices in `device`
  bool complete = true;   // false: not all reports are kept, and at_peak is a part
  int64_t peak_bytes = 0;
  int64_t reserved_bytes = 0;  // by the framework at the peak; 0: not known
  int64_t peak_ps = 0;
  std::vector<HeldBytes> at_peak;  // `frames` has the framework's operation; by bytes, most first
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_MEMORY_H_
