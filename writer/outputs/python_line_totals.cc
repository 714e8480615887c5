// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/python_line_totals.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"

namespace tbprof {
namespace {

// The entry of a line; created if it is missing.
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

std::vector<CallSiteTotal> WaitSitesByPythonLine(const Timeline& timeline) {
  std::vector<CallSiteTotal> sites;
  absl::flat_hash_map<std::pair<StringId, uint16_t>, size_t> indices;
  for (const CallSiteTotal& site : timeline.wait_sites) {
    if (site.python != 0) {
      const auto [known, added] = indices.try_emplace({site.python, site.type}, sites.size());
      if (!added) {
        CallSiteTotal& line = sites[known->second];
        line.calls += site.calls;
        AddSaturating(&line.total_ps, site.total_ps);
        line.longest_ps = std::max(line.longest_ps, site.longest_ps);
        continue;
      }
    }
    sites.push_back(site);
  }
  std::ranges::stable_sort(sites, std::ranges::greater(), &CallSiteTotal::total_ps);
  return sites;
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
    // Sites are sorted: the first site of a line is its largest.
    if (line.site == 0) line.site = site.site;
    line.calls += site.calls;
    line.bytes += site.bytes;
    line.temporary += site.temporary;
    line.live_blocks += site.live_blocks;
    AddSaturating(&line.live_bytes, site.live_bytes);
    AddSaturating(&line.peak_bytes, site.peak_bytes);
  }
  if (indices.empty()) return lines;
  // The order of ExactHeap::sites: by peak, except if records were lost.
  const bool by_peak = heap.lost == 0;
  std::stable_sort(lines.begin(), lines.end(), [&](const HeapSite& a, const HeapSite& b) {
    return by_peak && a.peak_bytes != b.peak_bytes ? a.peak_bytes > b.peak_bytes : a.bytes > b.bytes;
  });
  return lines;
}

}  // namespace tbprof
