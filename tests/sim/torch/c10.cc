// SPDX-License-Identifier: Apache-2.0
// The stand-in of libc10.so: the allocator of tensors in the memory of the host.
#include <stddef.h>
#include <stdlib.h>

namespace c10 {

__attribute__((noinline, visibility("default"))) void* alloc_cpu(size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, 64, bytes) == 0 ? block : nullptr;
}

__attribute__((visibility("default"))) void free_cpu(void* block) { free(block); }

}  // namespace c10
