// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "wire/layout.h"
#include "writer/base/parse_number.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// A cgroup that accounts the memory of this process.
struct Cgroup {
  bool unified;  // version 2
  std::string root;
  std::string path;
};

std::vector<Cgroup> MemoryCgroups() {
  std::vector<Cgroup> found;
  const std::string groups = ReadText("/proc/self/cgroup");
  for (const std::string_view line : Split(groups, '\n')) {
    // 0::/path (v2) or N:memory:/path (v1)
    const std::vector<std::string_view> parts = Split(line, ':');
    if (parts.size() < 3) continue;
    const bool unified = parts[1].empty();
    if (!unified && parts[1].find("memory") == std::string_view::npos) continue;
    found.push_back({unified, unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", std::string(parts[2])});
  }
  return found;
}

}  // namespace

std::optional<uint64_t> CgroupMemoryLimit() {
  std::optional<uint64_t> least;
  for (const Cgroup& group : MemoryCgroups()) {
    const std::string_view name = group.unified ? "/memory.max" : "/memory.limit_in_bytes";
    std::string path = group.path;
    for (int depth = 0; depth < 64; ++depth) {
      const std::string text = ReadText(StrCat(group.root, path == "/" ? "" : path, name));
      const std::optional<uint64_t> limit = LeadingNumber<uint64_t>(text);
      // Without a limit, v2 has `max`, which is no number, and v1 has a number near 2^63.
      if (limit && *limit < (uint64_t{1} << 60)) least = std::min(least.value_or(UINT64_MAX), *limit);
      if (path.size() <= 1) break;
      path = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
    }
  }
  return least;
}

std::optional<uint64_t> OutOfMemoryKills() {
  for (const Cgroup& group : MemoryCgroups()) {
    const std::string_view name = group.unified ? "/memory.events" : "/memory.oom_control";
    std::string text = ReadText(StrCat(group.root, group.path == "/" ? "" : group.path, name));
    // In a container the path may be the one outside of it; the container's own cgroup is then the root.
    if (text.empty()) text = ReadText(StrCat(group.root, name));
    constexpr std::string_view kKey = "oom_kill ";
    for (const std::string_view entry : Split(text, '\n')) {
      if (!entry.starts_with(kKey)) continue;
      if (const auto count = LeadingNumber<uint64_t>(entry.substr(kKey.size()))) return count;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> AddressSpaceLimit() {
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return space.rlim_cur;
}

uint64_t SegmentBytes(const Options& options, std::optional<uint64_t> limit, std::optional<uint64_t> address_space) {
  if (options.segment_size_named) return options.segment_size;
  const uint64_t most = std::min(limit.value_or(UINT64_MAX) / 20, address_space.value_or(UINT64_MAX) / 128);
  return std::clamp<uint64_t>(most, uint64_t{kMinChunks} * kChunkBytes, options.segment_size);
}

}  // namespace tbprof
