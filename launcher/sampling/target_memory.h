// SPDX-License-Identifier: Apache-2.0
//
// Reads another process's memory through one function, so that tests and the fuzzer can pass any data to the readers.
//
// Process: launcher. One thread at a time may call the function of ProcessMemory; it may wait until the kernel has
// loaded a page of the target.
#ifndef TBPROF_LAUNCHER_SAMPLING_TARGET_MEMORY_H_
#define TBPROF_LAUNCHER_SAMPLING_TARGET_MEMORY_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace tbprof {

// Copies the ranges in their order and without gaps to `out`; at most kMaxMemoryRanges ranges. Returns the number of
// bytes before the first byte that cannot be read, or -errno.
using ReadMemory = std::function<int64_t(void* out, std::span<const iovec> ranges)>;
inline constexpr size_t kMaxMemoryRanges = 1000;

// Reads with process_vm_readv: the target is neither stopped nor changed.
ReadMemory ProcessMemory(pid_t pid);

inline iovec MemoryRange(uint64_t address, size_t size) { return {reinterpret_cast<void*>(address), size}; }

// Reads all bytes, or returns false.
inline bool ReadAt(const ReadMemory& read, uint64_t address, void* out, size_t size) {
  const iovec range = MemoryRange(address, size);
  return read(out, {&range, 1}) == static_cast<int64_t>(size);
}

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_TARGET_MEMORY_H_
