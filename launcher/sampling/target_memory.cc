// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/target_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "writer/base/scoped.h"

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

std::string ReadProcFile(const std::string& path, int* error) {
  constexpr size_t kMaxBytes = 16 << 20;
  std::string text;
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  *error = fd.valid() ? 0 : errno;
  while (fd.valid() && text.size() < kMaxBytes) {
    const size_t before = text.size();
    text.resize(before + 65536);
    const ssize_t got = read(fd.get(), &text[before], 65536);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
  }
  return text;
}

}  // namespace tbprof
