// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/target_memory.h"

#include <cerrno>

namespace tbprof {

ReadMemory ProcessMemory(pid_t pid) {
  return [pid](void* out, std::span<const iovec> ranges) -> int64_t {
    size_t size = 0;
    for (const iovec& range : ranges) size += range.iov_len;
    const iovec local = {out, size};
    const ssize_t got = process_vm_readv(pid, &local, 1, ranges.data(), ranges.size(), 0);
    return got < 0 ? -errno : got;
  };
}

}  // namespace tbprof
