// SPDX-License-Identifier: Apache-2.0
//
// Reads the memory limit of a container, and derives the size of a recorded program's segment from it. The segment's
// pages are accounted to the program: at the limit the kernel ends the program, not tbprof.
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

// The smallest limit, in bytes, of this process's memory cgroup and its ancestors, version 1 or 2; std::nullopt: none.
std::optional<uint64_t> CgroupMemoryLimit();

// The number of processes that the kernel has killed for lack of memory in this process's memory cgroup (version 2: and
// in its descendants); std::nullopt: not known.
std::optional<uint64_t> OutOfMemoryKills();

// --buffer-size if it was given; else the smaller of its default and a twentieth of the limit, but at least 4 MiB.
uint64_t SegmentBytes(const Options& options, std::optional<uint64_t> limit);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_MEMORY_LIMIT_H_
