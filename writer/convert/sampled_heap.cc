// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/sampled_heap.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tbprof {
namespace {

// The limit of forks within forks.
constexpr int kMostForks = 8;
// A block of four intervals has no sample once in 55 times.
constexpr double kSureIntervals = 4;

}  // namespace

bool SampledHeap::HasRoom() {
  full_ |= events_ >= kMostEvents;
  if (!full_) ++events_;
  return !full_;
}

void SampledHeap::TakeSample(const Identity& process, const AllocationSampleRecord& sample, uint32_t site) {
  OfProcess& of = processes_[process];
  if (!HasRoom()) {
    ++of.not_followed;
    return;
  }
  of.events.push_back({sample.ticks, sample.address & kLow48, sample.size, sample.weight, sample.interval,
                       sample.live_bytes, site, Kind::kSampled});
}

void SampledHeap::TakeFree(const Identity& process, uint8_t flags, const SampledFreeRecord& freed) {
  OfProcess& of = processes_[process];
  // If a free is dropped here, its block seems to be live.
  const bool dropped = !HasRoom();
  if (dropped || (flags & kRecordNotFollowed) != 0) ++of.not_followed;
  if (dropped) return;
  const Kind kind = (flags & kRecordFailed) != 0 ? Kind::kRestored : Kind::kFreed;
  of.events.push_back({freed.ticks, freed.address & kLow48, 0, 0, 0, freed.live_bytes, 0, kind});
}

void SampledHeap::Finish() {
  for (auto& [process, of] : processes_) {
    // At the same tick frees come first: an address is allocated again only after its free.
    std::stable_sort(of.events.begin(), of.events.end(), [](const Event& a, const Event& b) {
      return a.ticks != b.ticks ? a.ticks < b.ticks : a.kind < b.kind;
    });
  }
}

SampledHeap::Live SampledHeap::LiveAt(const Identity& process, uint64_t ticks, int depth) const {
  Live live;
  const auto facts = facts_.processes.find(process);
  if (facts != facts_.processes.end() && facts->second.forked && facts->second.parent_serial != 0 &&
      depth < kMostForks) {
    live =
        LiveAt({process.segment, facts->second.parent_serial}, std::min(ticks, facts->second.start_ticks), depth + 1);
  }
  const auto of = processes_.find(process);
  if (of == processes_.end()) return live;
  // Freed blocks, from which a failed realloc restores its block.
  absl::flat_hash_map<uint64_t, const Event*> gone;
  for (const Event& event : of->second.events) {
    if (event.ticks > ticks) break;
    const auto known = live.find(event.address);
    switch (event.kind) {
      case Kind::kSampled:
        live[event.address] = &event;
        gone.erase(event.address);
        break;
      case Kind::kFreed:
        if (known == live.end()) break;
        gone[event.address] = known->second;
        live.erase(known);
        break;
      case Kind::kRestored:
        if (const auto back = gone.find(event.address); back != gone.end()) live[event.address] = back->second;
        break;
    }
  }
  return live;
}

SampledHeap::Held SampledHeap::HeldBy(const Event& sample) {
  const auto size = static_cast<double>(std::min<uint64_t>(sample.size, uint64_t{1} << 48));
  // A spool without intervals: the sample stands for the weight of its sampling points.
  if (sample.interval == 0) {
    const auto weight = static_cast<double>(sample.weight);
    return {weight, size > 0 ? weight / size : 1, 0, 1};
  }
  const double intervals = size / static_cast<double>(sample.interval);
  // A block of 0 bytes: no sample stands for it.
  const double probability = -std::expm1(-intervals);
  if (probability <= 0) return {0, 0, 0, 1};
  return {size / probability, 1 / probability, intervals >= kSureIntervals ? size / probability : 0, 1};
}

absl::flat_hash_map<uint32_t, SampledHeap::Held> SampledHeap::At(const Identity& process, uint64_t ticks) const {
  absl::flat_hash_map<uint32_t, Held> sites;
  for (const auto& [address, sample] : LiveAt(process, ticks, 0)) {
    const Held held = HeldBy(*sample);
    Held& site = sites[sample->site];
    site.bytes += held.bytes;
    site.blocks += held.blocks;
    site.sure += held.sure;
    site.samples += held.samples;
  }
  return sites;
}

std::vector<SampledHeap::Level> SampledHeap::LevelsOf(const Identity& process) const {
  std::vector<Level> levels;
  const auto of = processes_.find(process);
  if (of == processes_.end()) return levels;
  for (const Event& event : of->second.events) {
    const bool known = event.kind != Kind::kSampled || event.interval != 0;
    if (known) levels.push_back({event.ticks, event.live_bytes});
  }
  return levels;
}

uint64_t SampledHeap::NotFollowed(const Identity& process) const {
  const auto of = processes_.find(process);
  return of == processes_.end() ? 0 : of->second.not_followed;
}

}  // namespace tbprof
