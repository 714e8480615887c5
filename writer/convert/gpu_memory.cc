// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_memory.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace tbprof {
namespace {
constexpr size_t kMaxChanges = 1u << 21;
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;
}  // namespace

bool GpuMemoryTrack::Add(const Change& change) {
  if (changes_.size() >= kMaxChanges) return false;
  changes_.push_back(change);
  return true;
}

std::vector<GpuMemoryTrack::Sample> GpuMemoryTrack::Samples() {
  // At the same tick a release comes first: an address is allocated again only after its release.
  std::stable_sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
    return a.ticks != b.ticks ? a.ticks < b.ticks : a.is_release > b.is_release;
  });
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint64_t> live;
  std::vector<Sample> samples;
  int64_t in_use = 0;
  for (const Change& change : changes_) {
    const std::pair<uint32_t, uint64_t> key{change.owner, change.address};
    if (change.is_release) {
      const auto found = live.find(key);
      if (found == live.end()) continue;
      in_use -= static_cast<int64_t>(found->second);
      live.erase(found);
    } else {
      const uint64_t bytes = std::min(change.bytes, kMaxBytes / kMaxChanges * 1024);
      const auto [entry, added] = live.try_emplace(key, bytes);
      // The release of the earlier allocation was lost.
      if (!added) in_use -= static_cast<int64_t>(std::exchange(entry->second, bytes));
      in_use += static_cast<int64_t>(bytes);
    }
    samples.push_back({change.ticks, in_use});
  }
  return samples;
}

}  // namespace tbprof
