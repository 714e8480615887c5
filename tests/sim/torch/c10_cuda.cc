// SPDX-License-Identifier: Apache-2.0
// The stand-in of libc10_cuda.so: an allocator of device memory that only reports.
#include <stddef.h>
#include <stdint.h>

#include "torch.h"

namespace c10 {
struct Device {
  int8_t type, index;
};
#ifdef SIM_TORCH_OLD_STRINGS
using Total = int64_t;
#else
using Total = size_t;
#endif
void reportMemoryUsageToProfiler(void* block, int64_t bytes, Total allocated, Total reserved, Device device);
}  // namespace c10

extern "C" __attribute__((visibility("default"))) void sim_torch_report(void* block, int64_t bytes, uint64_t allocated,
                                                                        uint64_t reserved, int device) {
  const c10::Device on{static_cast<int8_t>(device < 0 ? 0 : 1), static_cast<int8_t>(device)};
  c10::reportMemoryUsageToProfiler(block, bytes, static_cast<c10::Total>(allocated), static_cast<c10::Total>(reserved),
                                   on);
}
