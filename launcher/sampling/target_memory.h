// SPDX-License-Identifier: Apache-2.0
//
// Reading another process's memory: one function, so that tests and the fuzzer can feed the readers what they like.
//
// Process: launcher. The function of ProcessMemory may be called by one thread at a time; it may wait for the kernel
// to bring a page of the target in.
#ifndef TBPROF_LAUNCHER_SAMPLING_TARGET_MEMORY_H_
#define TBPROF_LAUNCHER_SAMPLING_TARGET_MEMORY_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace tbprof {

// Copies the ranges, one behind the other, in this order, to `out`. Returns how many bytes were copied before the first
// that cannot be read, or -errno. At most kMaxMemoryRanges ranges.
using ReadMemory = std::function<int64_t(void* out, std::span<const iovec> ranges)>;
inline constexpr size_t kMaxMemoryRanges = 1000;

// Reads with process_vm_readv: the target is neither stopped nor changed.
ReadMemory ProcessMemory(pid_t pid);

inline iovec MemoryRange(uint64_t address, size_t size) { return {reinterpret_cast<void*>(address), size}; }

// All of it or false.
inline bool ReadAt(const ReadMemory& read, uint64_t address, void* out, size_t size) {
  const iovec range = MemoryRange(address, size);
  return read(out, {&range, 1}) == static_cast<int64_t>(size);
}

// A file of /proc, up to 16 MiB of it. `error`: errno of opening it, or 0.
std::string ReadProcFile(const std::string& path, int* error);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_TARGET_MEMORY_H_
