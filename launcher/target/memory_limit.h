// SPDX-License-Identifier: Apache-2.0
//
// Reads the memory limit of a container, and derives the size of a recorded program's segment from it. The segment's
// pages are accounted to the program: at the limit the kernel ends the program, not tbprof.
//
//   config.segment_bytes = SegmentBytes(options, CgroupMemoryLimit(), AddressSpaceLimit());
//
// Process: launcher, main thread. Reads files of /proc and /sys.
#ifndef TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_
#define TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_

#include <cstdint>
#include <optional>

#include "launcher/cli/options.h"

namespace tbprof {

// The smallest limit, in bytes, of this process's memory cgroup and its ancestors, version 1 or 2; std::nullopt: none.
std::optional<uint64_t> CgroupMemoryLimit();

// The number of processes that the kernel has killed for lack of memory in this process's memory cgroup (version 2: and
// in its descendants); std::nullopt: not known.
std::optional<uint64_t> OutOfMemoryKills();

// RLIMIT_AS of this process, in bytes; std::nullopt: none.
std::optional<uint64_t> AddressSpaceLimit();

// --buffer-size if it was given; else the smallest of its default, a twentieth of the limit and a 128th of the address
// space, which the segments of many short programs share, but at least 4 MiB.
uint64_t SegmentBytes(const Options& options, std::optional<uint64_t> limit, std::optional<uint64_t> address_space);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_
