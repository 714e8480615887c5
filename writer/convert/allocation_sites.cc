// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/allocation_sites.h"

#include <algorithm>
#include <cstring>

#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr int kMaxFrames = 48;
constexpr size_t kMaxShown = 200;

// Whether it is a library of tbprof's: its frames are not the program's.
bool IsTbprof(const Module& module) { return BaseName(module.path).starts_with("libtbprof_"); }

}  // namespace

void AllocationSites::Add(const Identity& process, const AllocationSampleRecord& sample, const RecordView& record) {
  StackSnapshot snapshot;
  snapshot.register_count = kSnapshotRegisters;
  memcpy(snapshot.registers, sample.registers, sizeof(sample.registers));
  snapshot.stack_address = sample.stack_address;
  snapshot.stack = record.bytes + sizeof(sample);
  snapshot.stack_size = std::min<size_t>(sample.stack_bytes, record.size - sizeof(sample));
  Site& site = sites_[{process, unwinder_.Unwind(modules_.Of(process), snapshot, kMaxFrames)}];
  ++site.samples;
  ++samples_;
  site.bytes += static_cast<double>(sample.weight);
  site.call_site = sample.call_site;
}

std::vector<StringId> AllocationSites::NameFrames(const Identity& process, const std::vector<uint64_t>& addresses,
                                                  uint64_t call_site) {
  std::vector<StringId> frames;
  for (const uint64_t address : addresses) {
    // A hook is below what it calls, too: pthread_create's allocates the thread's stack.
    const Module* const module = modules_.Of(process).Find(address);
    if (module == nullptr || !IsTbprof(*module)) frames.push_back(modules_.NameOfCall(process, address));
  }
  // Nothing to be made of the stack: at least the caller is known.
  if (frames.empty()) frames.push_back(modules_.NameOfCall(process, call_site));
  return frames;
}

void AllocationSites::Finish(Timeline* timeline) {
  std::map<std::vector<StringId>, AllocationSiteTotal> merged;
  for (const auto& [key, site] : sites_) {
    std::vector<StringId> frames = NameFrames(key.first, key.second, site.call_site);
    AllocationSiteTotal& total = merged[frames];
    total.frames = std::move(frames);
    total.samples += site.samples;
    total.bytes += site.bytes;
  }
  std::vector<AllocationSiteTotal>& sites = timeline->allocation_sites;
  for (auto& [frames, total] : merged) sites.push_back(std::move(total));
  std::sort(sites.begin(), sites.end(),
            [](const AllocationSiteTotal& a, const AllocationSiteTotal& b) { return a.bytes > b.bytes; });
  if (sites.size() > kMaxShown) sites.resize(kMaxShown);
}

}  // namespace tbprof
