// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/python_line_totals.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"

namespace tbprof {
namespace {

// Index of a line's entry, which is made if need be.
template <typename Entry>
Entry& EntryOf(StringId python, absl::flat_hash_map<StringId, size_t>* indices, std::vector<Entry>* entries) {
  const auto [known, added] = indices->try_emplace(python, entries->size());
  if (added) entries->emplace_back().python = python;
  return (*entries)[known->second];
}

}  // namespace

std::vector<PythonLineWait> WaitsByPythonLine(const Timeline& timeline) {
  std::vector<PythonLineWait> lines;
  absl::flat_hash_map<StringId, size_t> indices;
  for (const CallSiteTotal& site : timeline.wait_sites) {
    if (site.python == 0) continue;
    PythonLineWait& line = EntryOf(site.python, &indices, &lines);
    line.calls += site.calls;
    AddSaturating(&line.total_ps, site.total_ps);
    line.longest_ps = std::max(line.longest_ps, site.longest_ps);
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), &PythonLineWait::total_ps);
  return lines;
}

std::vector<PythonLineAllocations> AllocationsByPythonLine(const Timeline& timeline) {
  std::vector<PythonLineAllocations> lines;
  absl::flat_hash_map<StringId, size_t> indices;
  for (const AllocationSiteTotal& site : timeline.allocation_sites) {
    if (site.python == 0) continue;
    PythonLineAllocations& line = EntryOf(site.python, &indices, &lines);
    line.samples += site.samples;
    line.bytes += site.bytes;
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), &PythonLineAllocations::bytes);
  return lines;
}

std::vector<HeapSite> HeapByPythonLine(const ExactHeap& heap, bool all) {
  std::vector<HeapSite> lines;
  absl::flat_hash_map<StringId, size_t> indices;
  for (const HeapSite& site : heap.sites) {
    if (site.python == 0) {
      if (all) lines.push_back(site);
      continue;
    }
    HeapSite& line = EntryOf(site.python, &indices, &lines);
    // Sites are in order: the first is the largest.
    if (line.site == 0) line.site = site.site;
    line.calls += site.calls;
    line.bytes += site.bytes;
    line.temporary += site.temporary;
    line.live_blocks += site.live_blocks;
    AddSaturating(&line.live_bytes, site.live_bytes);
    AddSaturating(&line.peak_bytes, site.peak_bytes);
  }
  if (indices.empty()) return lines;
  // As ExactHeap::sites, whose peaks are no order where records are lost.
  const bool by_peak = heap.lost == 0;
  std::stable_sort(lines.begin(), lines.end(), [&](const HeapSite& a, const HeapSite& b) {
    return by_peak && a.peak_bytes != b.peak_bytes ? a.peak_bytes > b.peak_bytes : a.bytes > b.bytes;
  });
  return lines;
}

}  // namespace tbprof
