// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/process_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "writer/base/saturating.h"

namespace tbprof {
namespace {

constexpr size_t kMostRows = 1000;
// If samples stand for less than this share of the counted bytes, the rest has no place. Otherwise the difference is
// noise of the samples, and the bytes of the places are scaled to the counted sum.
constexpr double kLeastShare = 0.7;
constexpr double kLeastOfPeak = 0.9;
// Threads add their counts to the process's about every 64 KiB.
constexpr int64_t kLeastRise = 512 * 1024;
constexpr int64_t kLeastRiseShare = 100;  // 1 / n of the peak

double Whole(int64_t bytes) { return static_cast<double>(std::max<int64_t>(bytes, 0)); }

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
int64_t LevelAt(const std::vector<SampledHeap::Level>& levels, uint64_t ticks, int64_t before) {
  const auto after = std::ranges::upper_bound(levels, ticks, {}, &SampledHeap::Level::ticks);
  return after == levels.begin() ? before : std::prev(after)->bytes;
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
  memory.lower_bound = !counted.is_absolute;
  memory.peak_bytes = counted.window_peak_bytes;
  const std::vector<SampledHeap::Level> levels = LevelsOf(identity);
  for (const SampledHeap::Level& level : levels) memory.peak_bytes = std::max(memory.peak_bytes, level.bytes);
  const Moment peak = PeakMoment(identity, levels, memory.peak_bytes);
  memory.peak_ps = std::max(peak.ps, process.start_ps);
  if (memory.peak_bytes <= 0) return;
  const Span span = GrowthSpan(process, index);
  const HeapBlocks* const blocks = from_.heap.BlocksOf(identity);
  if (span.to.ticks > span.from.ticks) {
    const int64_t begin = from_.heap.LevelsOf(identity).begin_bytes;
    memory.growth.emplace();
    memory.growth->bytes = LevelAt(levels, span.to.ticks, begin) - LevelAt(levels, span.from.ticks, begin);
    memory.growth->from_ps = span.from.ps;
    memory.growth->to_ps = span.to.ps;
    memory.growth->steps = span.steps;
  }
  memory.grows = Grows(index, levels, memory.peak_bytes);
  if (process.exact_heap.recorded && blocks != nullptr) {
    AddExact(identity, *blocks, span, &process);
  } else {
    AddSampled(identity, peak.ticks, span, &process);
  }
  AddPeakToTrack(index);
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
  const auto changes =
      blocks.growth().Between(blocks.growth().BorderAt(span.from.ticks), blocks.growth().BorderAt(span.to.ticks));
  for (size_t i = 0; i < changes.size(); ++i) {
    AddSaturating(&all, changes[i].bytes);
    if (changes[i].bytes == 0) continue;
    HeldBytes row = PlaceOfExact(identity, blocks.sites()[i]);
    row.bytes = changes[i].bytes;
    row.blocks = changes[i].blocks;
    AddRow(std::move(row), &grown);
  }
  memory.growth->bytes = all;
  memory.growth->from_ps = At(blocks.growth().BorderAt(span.from.ticks)).ps;
  memory.growth->to_ps = At(blocks.growth().BorderAt(span.to.ticks)).ps;
  memory.growth->rows = Sorted(grown);
}

void ProcessMemories::AddSampled(const Identity& identity, uint64_t peak_ticks, const Span& span, Process* process) {
  HeldMemory& memory = process->memory;
  memory.lost = from_.heap.LostRecords(identity) + from_.sampled.NotFollowed(identity);
  memory.basis = MemoryBasis::kSampled;
  if (memory.lost > 0) return;
  auto sites = from_.sampled.At(identity, peak_ticks);
  double sum = 0, sure = 0;
  for (const auto& [site, held] : sites) {
    sum += held.bytes;
    sure += held.sure;
    memory.samples += held.samples;
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

bool ProcessMemories::HasSteps(uint32_t index) const {
  const bool real = timeline_.step_source != StepSource::kNone && timeline_.step_source != StepSource::kWholeCapture;
  return real && !timeline_.steps_in_detail && !timeline_.steps.empty() &&
         timeline_.steps[0].thread < timeline_.threads.size() &&
         timeline_.threads[timeline_.steps[0].thread].process == index;
}

// From the end of the first to the end of the last regular step: memory that a program frees at its end shows nothing.
// Without such steps, the process's time in the window without the first tenth, and, if the process ended by itself,
// without the last tenth.
ProcessMemories::Span ProcessMemories::GrowthSpan(const Process& process, uint32_t index) const {
  Span span;
  if (HasSteps(index)) {
    const Step *first = nullptr, *last = nullptr;
    uint64_t between = 0, steps = 0;
    for (const Step& step : timeline_.steps) {
      if (first != nullptr) ++between;
      if (!step.is_regular) continue;
      if (first == nullptr) first = &step;
      last = &step;
      steps = between;
    }
    if (steps > 0) return {{TicksOf(first->end_ps), first->end_ps}, {TicksOf(last->end_ps), last->end_ps}, steps};
  }
  const int64_t tenth = (process.end_ps - process.start_ps) / 10;
  const int64_t from = process.start_ps + tenth;
  const int64_t to = process.exit_code >= 0 ? process.end_ps - tenth : process.end_ps;
  return {{TicksOf(from), from}, {TicksOf(to), to}, 0};
}

std::optional<bool> ProcessMemories::Grows(uint32_t index, const std::vector<SampledHeap::Level>& levels,
                                           int64_t peak) const {
  if (!HasSteps(index)) return std::nullopt;
  std::vector<int64_t> ends;
  bool regular = false;
  for (const Step& step : timeline_.steps) {
    regular |= step.is_regular;
    if (regular) ends.push_back(step.end_ps);
  }
  std::vector<MemoryLevel> in_steps;
  for (const SampledHeap::Level& level : levels) {
    in_steps.push_back({PsInWindow(from_.facts, timeline_, level.ticks), level.bytes});
  }
  return RisesSteadily(FloorsOfSteps(in_steps, ends), std::max(kLeastRise, peak / kLeastRiseShare));
}

// The launcher's counter samples may have missed the peak.
void ProcessMemories::AddPeakToTrack(uint32_t index) {
  const HeldMemory& memory = timeline_.processes[index].memory;
  for (CounterTrack& track : timeline_.counters) {
    if (track.process != index || track.device >= 0 || track.samples.empty()) continue;
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
