// SPDX-License-Identifier: Apache-2.0
//
// The memory that a container grants, and what of it a recorded program's segment may take: its pages count for the
// program, and the limit ends the program, not us.
//
//   config.segment_bytes = SegmentBytes(options, CgroupMemoryLimit());
//
// Process: launcher, main thread. Reads files of /proc and /sys.
#ifndef TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_
#define TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_

#include <cstdint>
#include <optional>

#include "launcher/cli/options.h"

namespace tbprof {

// Bytes: the least of this process's memory cgroup and those above it, of version 1 or 2; nothing: no limit.
std::optional<uint64_t> CgroupMemoryLimit();

// How many processes the kernel has ended for lack of memory in this process's memory cgroup (version 2: and in those
// below it); nothing: not told.
std::optional<uint64_t> OutOfMemoryKills();

// --buffer-size where it was named, else its default or a twentieth of the limit, whichever is less; 4 MiB at least.
uint64_t SegmentBytes(const Options& options, std::optional<uint64_t> limit);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_
