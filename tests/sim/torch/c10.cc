// SPDX-License-Identifier: Apache-2.0
// The stand-in of libc10.so: the allocator of tensors in the memory of the host.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "torch.h"

namespace c10 {

__attribute__((noinline, visibility("default"))) void* alloc_cpu(size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, 64, bytes) == 0 ? block : nullptr;
}

__attribute__((visibility("default"))) void free_cpu(void* block) { free(block); }

class __attribute__((visibility("default"))) UndefinedTensorImpl {
 public:
  static SimTorchTensorImpl _singleton;
};
SimTorchTensorImpl UndefinedTensorImpl::_singleton;

struct Device {
  int8_t type, index;
};

namespace {
int64_t g_reported, g_reports;
}
__attribute__((visibility("default"))) int64_t Reported() { return g_reported; }
__attribute__((visibility("default"))) int64_t Reports() { return g_reports; }

#ifdef SIM_TORCH_OLD_STRINGS
using Total = int64_t;
#else
using Total = size_t;
#endif
// What the program's own profiler would get.
__attribute__((visibility("default"))) void reportMemoryUsageToProfiler(void* block, int64_t bytes, Total allocated,
                                                                        Total reserved, Device device) {
  if (block == nullptr || reserved < allocated || device.index < -1) abort();
  g_reported += bytes;
  ++g_reports;
}

}  // namespace c10
