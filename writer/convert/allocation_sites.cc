// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/allocation_sites.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr int kMaxFrames = 48;
constexpr size_t kMaxShown = 200;
// The limit if Python lines are known: outputs add the sites up by line.
constexpr size_t kMaxShownByLine = 20'000;

// Whether the module is a library of tbprof: its frames are not the program's.
bool IsTbprof(const Module& module) { return BaseName(module.path).starts_with("libtbprof_"); }

}  // namespace

uint32_t AllocationSites::Add(const Identity& process, const AllocationSampleRecord& sample, const RecordView& record,
                              uint32_t python) {
  StackSnapshot snapshot;
  snapshot.register_count = kSnapshotRegisters;
  memcpy(snapshot.registers, sample.registers, sizeof(sample.registers));
  snapshot.stack_address = sample.stack_address;
  snapshot.stack = record.bytes + sizeof(sample);
  snapshot.stack_size = std::min<size_t>(sample.stack_bytes, record.size - sizeof(sample));
  const auto [entry, added] =
      sites_.try_emplace({process, unwinder_.Unwind(modules_.Of(process), snapshot, kMaxFrames), python});
  Site& site = entry->second;
  if (added) {
    site.number = static_cast<uint32_t>(by_number_.size());
    by_number_.push_back(&*entry);
  }
  ++site.samples;
  ++samples_;
  site.bytes += static_cast<double>(sample.weight);
  site.call_site = sample.call_site;
  return site.number;
}

HeldBytes AllocationSites::PlaceOf(uint32_t number) {
  const auto& [key, site] = *by_number_[number];
  const auto& [process, addresses, reference] = key;
  HeldBytes place;
  place.frames = NameFrames(process, addresses, site.call_site);
  place.python_stack = python_.StackOf(reference);
  place.python = python_.LabelOf(python_.PlaceOf(place.python_stack));
  return place;
}

std::vector<StringId> AllocationSites::NameFrames(const Identity& process, const std::vector<uint64_t>& addresses,
                                                  uint64_t call_site) {
  std::vector<StringId> frames;
  for (const uint64_t address : addresses) {
    // A stack may contain a hook: pthread_create, called by its hook, allocates the thread's stack.
    const Module* const module = modules_.Of(process).Find(address);
    if (module == nullptr || !IsTbprof(*module)) frames.push_back(modules_.NameOfCall(process, address));
  }
  // The stack gave no frame: the caller of the allocator is still known.
  if (frames.empty()) frames.push_back(modules_.NameOfCall(process, call_site));
  return frames;
}

void AllocationSites::Finish(Timeline* timeline) {
  struct Merged {
    AllocationSiteTotal total;
    double most = -1;  // bytes of the entry whose Python stack is shown
  };
  std::map<std::pair<std::vector<StringId>, uint32_t>, Merged> merged;
  for (const auto& [key, site] : sites_) {
    const auto& [process, addresses, python] = key;
    std::vector<StringId> frames = NameFrames(process, addresses, site.call_site);
    const uint32_t stack = python_.StackOf(python);
    const uint32_t place = python_.PlaceOf(stack);
    auto& [total, most] = merged[{frames, place}];
    total.frames = std::move(frames);
    total.samples += site.samples;
    total.bytes += site.bytes;
    if (site.bytes <= most) continue;
    most = site.bytes;
    total.python = python_.LabelOf(place);
    total.python_stack = stack;
  }
  std::vector<AllocationSiteTotal>& sites = timeline->allocation_sites;
  for (auto& [key, entry] : merged) sites.push_back(std::move(entry.total));
  std::sort(sites.begin(), sites.end(),
            [](const AllocationSiteTotal& a, const AllocationSiteTotal& b) { return a.bytes > b.bytes; });
  const bool by_line =
      std::any_of(sites.begin(), sites.end(), [](const AllocationSiteTotal& site) { return site.python != 0; });
  sites.resize(std::min(sites.size(), by_line ? kMaxShownByLine : kMaxShown));
}

}  // namespace tbprof
