// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/process_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/base/text_match.h"
#include "writer/convert/memory_growth.h"

namespace tbprof {
namespace {

constexpr size_t kMostRows = 1000;
// If samples stand for less than this share of the counted bytes, the rest has no place. Otherwise the difference is
// noise of the samples, and the bytes of the places are scaled to the counted sum.
constexpr double kLeastShare = 0.7;
constexpr double kLeastOfPeak = 0.9;
// Share of the samples at the peak.
constexpr double kMostNotFollowed = 0.02;

double Whole(int64_t bytes) { return static_cast<double>(std::max<int64_t>(bytes, 0)); }

// `libjemalloc.so.2`; empty: none is mapped. libstdc++'s operator calls malloc.
std::string_view LibraryWithOwnNew(const ModuleMap& map) {
  for (const Module& module : map.modules()) {
    const std::string_view name = BaseName(module.path);
    if (StartsWithAny(name, {"libjemalloc", "libtcmalloc", "libmimalloc"})) return name;
  }
  return {};
}

using Rows = std::map<std::pair<StringId, std::vector<StringId>>, HeldBytes>;

void AddRow(HeldBytes row, Rows* rows) {
  const auto [entry, added] = rows->try_emplace({row.python, row.frames}, row);
  if (added) return;
  AddSaturating(&entry->second.bytes, row.bytes);
  AddSaturating(&entry->second.blocks, row.blocks);
}

// The largest first; rows that hold nothing, or less than before, are left out.
std::vector<HeldBytes> Sorted(const Rows& rows) {
  std::vector<HeldBytes> sorted;
  for (const auto& [key, row] : rows) {
    if (row.bytes > 0) sorted.push_back(row);
  }
  std::ranges::stable_sort(sorted, std::ranges::greater(), &HeldBytes::bytes);
  if (sorted.size() > kMostRows) sorted.resize(kMostRows);
  return sorted;
}

// The last level at or before a moment; `before` if there is none.
int64_t LevelAtTicks(const std::vector<SampledHeap::Level>& levels, uint64_t ticks, int64_t before) {
  const auto after = std::ranges::upper_bound(levels, ticks, {}, &SampledHeap::Level::ticks);
  return after == levels.begin() ? before : std::prev(after)->bytes;
}

// The most live bytes in the second before a moment: the kernel takes half a second to take back a block of 2 GiB.
int64_t HighestBefore(const std::vector<MemoryLevel>& heap, int64_t at_ps) {
  constexpr int64_t kSecond = 1'000'000'000'000;
  int64_t highest = LevelAt(heap, at_ps - kSecond);
  for (auto level = std::ranges::upper_bound(heap, at_ps - kSecond, {}, &MemoryLevel::time_ps);
       level != heap.end() && level->time_ps <= at_ps; ++level) {
    highest = std::max(highest, level->bytes);
  }
  return highest;
}

}  // namespace

void ProcessMemories::Add() {
  for (const auto& [identity, index] : from_.model.processes()) {
    if (!from_.model.IsForkedImage(identity)) AddProcess(identity, index);
  }
}

void ProcessMemories::AddProcess(const Identity& identity, uint32_t index) {
  Process& process = timeline_.processes[index];
  HeldMemory& memory = process.memory;
  const AllocatorTotals& counted = process.allocator;
  if (process.state != ProcessState::kRecorded) return;
  if (timeline_.attached) return AddBeyond(index, {{0, 0}});
  if (const std::string_view library = LibraryWithOwnNew(from_.modules.Of(identity)); !library.empty()) {
    memory.own_new = timeline_.strings.Intern(library);
  }
  memory.lower_bound = !counted.is_absolute || memory.own_new != 0;
  memory.peak_bytes = counted.window_peak_bytes;
  const std::vector<SampledHeap::Level> levels = LevelsOf(identity);
  for (const SampledHeap::Level& level : levels) memory.peak_bytes = std::max(memory.peak_bytes, level.bytes);
  const Moment peak = PeakMoment(identity, levels, memory.peak_bytes);
  memory.peak_ps = std::max(peak.ps, process.start_ps);
  if (memory.peak_bytes <= 0) {
    if (memory.own_new != 0) AddBeyond(index, {{0, 0}});
    return;
  }
  std::vector<MemoryLevel> in_time;
  for (const SampledHeap::Level& level : levels) {
    in_time.push_back({PsInWindow(from_.facts, timeline_, level.ticks), level.bytes});
  }
  const GrowthAnswer growth = FindGrowth(timeline_, index, in_time, memory.peak_bytes);
  const Span span = {{TicksOf(growth.span.from_ps), growth.span.from_ps},
                     {TicksOf(growth.span.to_ps), growth.span.to_ps},
                     growth.span.steps};
  const HeapBlocks* const blocks = from_.heap.BlocksOf(identity);
  if (span.to.ticks > span.from.ticks) {
    const int64_t begin = from_.heap.LevelsOf(identity).begin_bytes;
    memory.growth.emplace();
    memory.growth->bytes = LevelAtTicks(levels, span.to.ticks, begin) - LevelAtTicks(levels, span.from.ticks, begin);
    memory.growth->from_ps = span.from.ps;
    memory.growth->to_ps = span.to.ps;
    memory.growth->steps = span.steps;
  }
  memory.grows = growth.grows;
  AddBeyond(index, in_time);
  if (process.exact_heap.recorded && blocks != nullptr) {
    AddExact(identity, *blocks, span, &process);
  } else {
    AddSampled(identity, peak.ticks, span, &process);
  }
  AddPeakToTrack(index);
}

// What a heap does not explain is measured at each reading: blocks that are allocated first and written later do not
// grow beyond it.
void ProcessMemories::AddBeyond(uint32_t index, const std::vector<MemoryLevel>& heap) {
  Process& process = timeline_.processes[index];
  ResidentMemory& resident = process.resident;
  // How much of a heap was there before it was recorded is not known.
  const bool is_known = !process.memory.lower_bound || process.memory.own_new != 0;
  if (!is_known || heap.empty() || resident.points.empty()) return;
  std::vector<MemoryLevel> beyond;
  int64_t most = 0;
  for (const ResidentPoint& point : resident.points) {
    const int64_t bytes = std::max<int64_t>(point.own_bytes() - HighestBefore(heap, point.at_ps), 0);
    beyond.push_back({point.at_ps, bytes});
    most = std::max(most, bytes);
  }
  const GrowthAnswer growth = FindGrowth(timeline_, index, beyond, most);
  // Behind its last step a program frees blocks that malloc keeps.
  const int64_t last_ps = growth.span.steps > 0 ? growth.span.to_ps : INT64_MAX;
  for (size_t i = 0; i < beyond.size(); ++i) {
    if (beyond[i].bytes <= resident.beyond_bytes || beyond[i].time_ps > last_ps) continue;
    resident.beyond_bytes = beyond[i].bytes;
    resident.beyond_at = resident.points[i];
  }
  if (growth.grows.value_or(false)) resident.beyond_growth = GrowthOf(beyond, growth.span);
}

// The highest level of a sample or of a free has an exact time, and the peak is at most a few samples above it. The
// launcher's counter sample finds the peak some milliseconds later, when its blocks may be released.
ProcessMemories::Moment ProcessMemories::PeakMoment(const Identity& identity,
                                                    const std::vector<SampledHeap::Level>& levels, int64_t peak) const {
  const auto highest = std::ranges::max_element(levels, {}, &SampledHeap::Level::bytes);
  if (highest == levels.end()) return At(from_.window.open);
  std::vector<SampledHeap::Level> timed = from_.sampled.LevelsOf(identity);
  std::erase_if(timed, [&](const SampledHeap::Level& level) {
    return level.ticks < from_.window.open || level.ticks >= from_.window.close;
  });
  const auto sampled = std::ranges::max_element(timed, {}, &SampledHeap::Level::bytes);
  if (sampled == timed.end()) return At(highest->ticks);
  int64_t level = sampled->bytes;
  AddSaturating(&level, from_.heap.LevelsOf(identity).shift);
  return At(Whole(level) >= kLeastOfPeak * Whole(peak) ? sampled->ticks : highest->ticks);
}

// Levels of the launcher's counter samples, of allocation samples and of frees of sampled blocks.
std::vector<SampledHeap::Level> ProcessMemories::LevelsOf(const Identity& identity) const {
  const int64_t shift = from_.heap.LevelsOf(identity).shift;
  std::vector<SampledHeap::Level> levels;
  for (const SampledHeap::Level& level : from_.sampled.LevelsOf(identity)) {
    if (level.ticks >= from_.window.open && level.ticks < from_.window.close) levels.push_back(level);
  }
  for (const CounterFact& look :
       LooksInWindow(from_.facts.processes.at(identity), from_.window.open, from_.window.close)) {
    levels.push_back({look.ticks, look.live_bytes});
  }
  for (SampledHeap::Level& level : levels) {
    AddSaturating(&level.bytes, shift);
    level.bytes = std::max<int64_t>(level.bytes, 0);
  }
  std::ranges::stable_sort(levels, {}, &SampledHeap::Level::ticks);
  return levels;
}

HeldBytes ProcessMemories::PlaceOfExact(const Identity& identity, const HeapBlocks::Site& site) {
  HeldBytes place;
  place.frames = {from_.modules.NameOfCall(identity, site.address)};
  const uint32_t python = from_.python.FinalPlace(site.python);
  place.python = from_.python.LabelOf(python);
  place.python_stack = from_.python.StackOfPlace(python);
  return place;
}

// Without steps, a program that imports what it needs neither leaks in the heap nor beyond it, where Python has its
// objects.
void ProcessMemories::LeaveOutImports(Process* process) {
  HeldMemory& memory = process->memory;
  if (memory.growth->steps > 0 || !IsOfImports(timeline_, *memory.growth)) return;
  memory.grows.reset();
  process->resident.beyond_growth.reset();
}

void ProcessMemories::AddExact(const Identity& identity, const HeapBlocks& blocks, const Span& span, Process* process) {
  HeldMemory& memory = process->memory;
  const ExactHeap& heap = process->exact_heap;
  memory.basis = MemoryBasis::kExact;
  memory.lost = heap.lost;
  if (heap.lost > 0) return memory.growth.reset();
  memory.earlier_bytes = std::max<int64_t>(process->allocator.begin_bytes, 0);
  memory.peak_bytes = heap.peak_bytes;
  AddSaturating(&memory.peak_bytes, memory.earlier_bytes);
  memory.peak_ps = heap.peak_bytes > 0 ? heap.peak_ps : process->start_ps;
  Rows rows;
  for (const HeapBlocks::Site& site : blocks.sites()) {
    if (site.peak_bytes <= 0) continue;
    HeldBytes row = PlaceOfExact(identity, site);
    row.bytes = site.peak_bytes;
    row.blocks = static_cast<int64_t>(site.peak_blocks);
    AddRow(std::move(row), &rows);
  }
  memory.at_peak = Sorted(rows);
  if (!memory.growth) return;
  Rows grown;
  int64_t all = 0;
  // A call is known to be within `widest_ps`: what a program frees behind its last step may seem to be within the
  // steps.
  const int64_t error_ps = std::min(heap.widest_ps, (span.to.ps - span.from.ps) / 4);
  const uint64_t from = blocks.growth().BorderAt(TicksOf(span.from.ps + error_ps));
  const uint64_t to = blocks.growth().BorderAt(TicksOf(span.to.ps - error_ps));
  const auto changes = blocks.growth().Between(from, to);
  for (size_t i = 0; i < changes.size(); ++i) {
    AddSaturating(&all, changes[i].bytes);
    if (changes[i].bytes == 0) continue;
    HeldBytes row = PlaceOfExact(identity, blocks.sites()[i]);
    row.bytes = changes[i].bytes;
    row.blocks = changes[i].blocks;
    AddRow(std::move(row), &grown);
  }
  memory.growth->bytes = all;
  memory.growth->from_ps = At(from).ps;
  memory.growth->to_ps = At(to).ps;
  if (span.steps > 0) memory.growth->steps = StepsBetween(timeline_, memory.growth->from_ps, memory.growth->to_ps);
  memory.growth->rows = Sorted(grown);
  LeaveOutImports(process);
}

void ProcessMemories::AddSampled(const Identity& identity, uint64_t peak_ticks, const Span& span, Process* process) {
  HeldMemory& memory = process->memory;
  memory.lost = from_.heap.LostRecords(identity);
  memory.basis = MemoryBasis::kSampled;
  if (memory.lost > 0) return;
  auto sites = from_.sampled.At(identity, peak_ticks);
  double sum = 0, sure = 0;
  for (const auto& [site, held] : sites) {
    sum += held.bytes;
    sure += held.sure;
    memory.samples += held.samples;
  }
  // A block that is not followed seems to be freed. A few of them are less than the noise of the samples.
  const uint64_t not_followed = from_.sampled.NotFollowed(identity);
  if (static_cast<double>(not_followed) > kMostNotFollowed * static_cast<double>(memory.samples)) {
    memory.samples = 0;
    memory.lost = not_followed;
    memory.too_many = true;
    return;
  }
  ScaleToPeak(identity, &sites, sum, sure, &memory);
  memory.at_peak = RowsOf(sites);
  if (!memory.growth) return;
  // Blocks that are live at both moments have the same samples, so that only blocks that came or went add noise.
  auto grown = from_.sampled.At(identity, span.to.ticks);
  for (const auto& [site, held] : from_.sampled.At(identity, span.from.ticks)) {
    grown[site].bytes -= held.bytes;
    grown[site].blocks -= held.blocks;
  }
  memory.growth->rows = RowsOf(grown);
  LeaveOutImports(process);
}

// The peak is counted, not estimated: the estimates are scaled to it.
void ProcessMemories::ScaleToPeak(const Identity& identity, absl::flat_hash_map<uint32_t, SampledHeap::Held>* sites,
                                  double sum, double sure, HeldMemory* memory) {
  const ProcessFacts& facts = ImageOf(identity, &from_.facts);
  const bool from_start = facts.start_ticks >= from_.window.open && !memory->lower_bound;
  const int64_t begin = from_start ? 0 : from_.heap.LevelsOf(identity).begin_bytes;
  const double peak = Whole(memory->peak_bytes);
  if (!from_start) {
    memory->earlier_bytes = std::min(begin, memory->peak_bytes);
  }
  const bool scales = sum > peak || (from_start && sum >= kLeastShare * peak);
  if (!scales || sum <= 0) return;
  // Large blocks are not scaled, if the peak has room for all of them.
  const double estimated = sum - sure;
  const bool by_estimates = estimated > 0 && sure < peak;
  const double factor = by_estimates ? (peak - sure) / estimated : 1;
  const double of_sure = sure > peak ? peak / sum : 1;
  for (auto& [site, held] : *sites) {
    const double unsure = held.bytes - held.sure;
    const double unsure_factor = by_estimates ? factor : of_sure;
    held.blocks *= held.bytes > 0 ? (held.sure * of_sure + unsure * unsure_factor) / held.bytes : 1;
    held.bytes = held.sure * of_sure + unsure * unsure_factor;
  }
}

std::vector<HeldBytes> ProcessMemories::RowsOf(const absl::flat_hash_map<uint32_t, SampledHeap::Held>& sites) {
  Rows rows;
  for (const auto& [site, held] : sites) {
    HeldBytes row = from_.sites.PlaceOf(site);
    row.bytes = std::llround(std::clamp(held.bytes, -9e18, 9e18));
    row.blocks = std::llround(std::clamp(held.blocks, -9e18, 9e18));
    AddRow(std::move(row), &rows);
  }
  return Sorted(rows);
}

// The launcher's counter samples may have missed the peak.
void ProcessMemories::AddPeakToTrack(uint32_t index) {
  const HeldMemory& memory = timeline_.processes[index].memory;
  for (CounterTrack& track : timeline_.counters) {
    if (track.process != index || track.name != kHeapTrack || track.samples.empty()) continue;
    const auto value = static_cast<double>(memory.peak_bytes);
    const bool is_there = std::ranges::any_of(track.samples, [&](const auto& at) { return at.value >= value; });
    if (is_there) return;
    const auto after = std::ranges::upper_bound(track.samples, memory.peak_ps, {}, &CounterSample::time_ps);
    track.samples.insert(after, {memory.peak_ps, value});
    return;
  }
}

uint64_t ProcessMemories::TicksOf(int64_t ps) const {
  uint64_t low = from_.window.open, high = from_.window.close;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (PsInWindow(from_.facts, timeline_, middle) < ps) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace tbprof
