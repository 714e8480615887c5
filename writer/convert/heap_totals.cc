// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/heap_totals.h"

#include <algorithm>
#include <utility>

#include "wire/python_current.h"
#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/spool/exec_images.h"
#include "writer/spool/record_view.h"

namespace tbprof {
namespace {

constexpr size_t kMaxCounterSamples = 4000;

// Only a hostile target has counters that run backwards.
uint64_t Difference(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

void AddNet(int64_t* sum, uint64_t allocated, uint64_t freed) {
  AddSaturating(sum, static_cast<int64_t>(allocated - freed));
}

}  // namespace

void HeapTotals::TakeBlocks(const Frame& frame, const ChunkFact& chunk, const Identity& process) {
  HeapBlocks& blocks = blocks_.try_emplace(process, window_.open, window_.close, &room_for_blocks_).first->second;
  blocks.BeginFrame(chunk);
  const Identity thread{frame.segment, chunk.thread_serial};
  uint64_t ignored = 0;
  ChunkFact read = chunk;
  ForEachRecord(frame, &read, &ignored, [&](const RecordView& record) {
    AllocationRecord allocation;
    AllocationSampleRecord sample;
    ChunkBeginRecord begin;
    ThreadExitRecord exit;
    SpanRecord span;
    if (record.tag.kind == RecordKind::kAllocation) {
      if (record.Read(&allocation)) blocks.Take(allocation);
    } else if (IsSpan(record.tag.kind)) {
      const bool is_time = record.ReadSpan(&span) && span.start + span.ticks >= span.start &&
                           !IsFarBehind(span.start + span.ticks, facts_.last_ticks);
      if (is_time) blocks.Time(span.start + span.ticks);
    } else if (record.tag.kind == RecordKind::kPythonStack) {
      PythonStackRecord stack;
      const uint32_t taken = python_.Take(process, thread, record);
      if (record.Read(&stack) && (stack.flags & kPythonStackCurrent) != 0) {
        blocks.SetPython(python_.PlaceOf(stack.frames > 0 ? taken : python_.ReferenceTo(thread, stack.number)));
      }
    } else if (record.tag.kind == RecordKind::kAllocationSample) {
      if (record.Read(&sample)) blocks.Time(sample.ticks);
    } else if (record.tag.kind == RecordKind::kChunkBegin) {
      if (record.Read(&begin)) blocks.Time(begin.ticks);
    } else if (record.tag.kind == RecordKind::kThreadExit) {
      if (record.Read(&exit)) blocks.Time(exit.ticks);
    }
  });
}

void HeapTotals::AddAllocatorTotals(EventTypes* types, CallTotals* totals) {
  for (const auto& [identity, thread] : facts_.threads) {
    const auto process = model_.processes().find({identity.segment, thread.process_serial});
    if (process == model_.processes().end() || !thread.has_last) continue;
    AllocatorTotals& sums = timeline_.processes[process->second].allocator;
    sums.allocations += Difference(thread.last.allocations, thread.first.allocations);
    sums.frees += Difference(thread.last.frees, thread.first.frees);
    sums.allocated_bytes += Difference(thread.last.allocated_bytes, thread.first.allocated_bytes);
    sums.freed_bytes += Difference(thread.last.freed_bytes, thread.first.freed_bytes);
    AddCountedCalls(identity, process->second, types, totals);
  }
  for (const auto& [identity, index] : model_.processes()) {
    const ProcessFacts& facts = facts_.processes[identity];
    AllocatorTotals& sums = timeline_.processes[index].allocator;
    sums.allocations += Difference(facts.last.late_allocations, facts.first.late_allocations);
    sums.frees += Difference(facts.last.late_frees, facts.first.late_frees);
    sums.allocated_bytes += Difference(facts.last.late_allocated_bytes, facts.first.late_allocated_bytes);
    sums.freed_bytes += Difference(facts.last.late_freed_bytes, facts.first.late_freed_bytes);
  }
  AddLevels();
}

void HeapTotals::AddCountedCalls(const Identity& identity, uint32_t process, EventTypes* types, CallTotals* totals) {
  const ThreadFacts& thread = facts_.threads[identity];
  for (const auto& [operation, count] : thread.last_counts) {
    const uint16_t type = types->OfOperation(identity.segment, operation);
    if (type == kNoType) continue;
    CountFact before{};
    const auto first = thread.first_counts.find(operation);
    if (first != thread.first_counts.end()) before = first->second;
    const uint64_t calls = Difference(count.calls, before.calls);
    if (calls == 0) continue;
    totals->CountUnrecorded(process, type, {.count = calls, .ticks = Difference(count.ticks, before.ticks)});
  }
}

void HeapTotals::AddLevels() {
  // Threads that ended before the window also contribute to the live bytes in it.
  std::map<Identity, std::pair<int64_t, int64_t>> counted;  // at the window's opening and at its close
  for (const auto& [identity, thread] : facts_.threads) {
    auto& [at_open, at_close] = counted[{identity.segment, thread.process_serial}];
    if (thread.has_first) AddNet(&at_open, thread.first.allocated_bytes, thread.first.freed_bytes);
    if (thread.has_last) AddNet(&at_close, thread.last.allocated_bytes, thread.last.freed_bytes);
  }
  const ArmedPeriods periods = AllocatorPeriods(facts_.windows);
  for (const auto& [identity, index] : model_.processes()) {
    // exec has discarded the fork child's heap.
    if (model_.IsForkedImage(identity)) continue;
    const ProcessFacts& facts = facts_.processes[identity];
    auto [at_open, at_close] = counted[identity];
    AddNet(&at_open, facts.first.late_allocated_bytes, facts.first.late_freed_bytes);
    AddNet(&at_close, facts.last.late_allocated_bytes, facts.last.late_freed_bytes);
    // A fork child has its parent's blocks from its first moment on, and may free them.
    AddSaturating(&at_open, facts.last.inherited_bytes);
    AddSaturating(&at_close, facts.last.inherited_bytes);
    const HeapLevels levels = HeapLevelsOf(
        {facts, ImageOf(identity, &facts_).start_ticks, window_.open, window_.close, at_open, at_close}, periods);
    AllocatorTotals& sums = timeline_.processes[index].allocator;
    sums.is_absolute = levels.absolute;
    sums.begin_bytes = levels.begin_bytes;
    sums.live_bytes = levels.live_bytes;
    sums.window_peak_bytes = levels.window_peak_bytes;
    sums.peak_bytes = levels.peak_bytes;
    levels_[identity] = levels;
  }
}

void HeapTotals::AddExactHeaps(bool is_own_window) {
  for (auto& [identity, blocks] : blocks_) {
    blocks.Finish();
    const HeapBlocks::Totals& totals = blocks.totals();
    if (totals.allocations == 0 && totals.releases == 0) continue;
    timeline_.records += totals.allocations + totals.releases;
    // exec has discarded the fork child's heap.
    if (!model_.IsForkedImage(identity)) AddExactHeap(identity, blocks, is_own_window);
  }
}

void HeapTotals::AddExactHeap(const Identity& identity, const HeapBlocks& blocks, bool is_own_window) {
  const HeapBlocks::Totals& totals = blocks.totals();
  Process& process = timeline_.processes[model_.processes().at(identity)];
  ExactHeap& heap = process.exact_heap;
  heap.recorded = true;
  heap.lost = LostBlocks(identity, totals, is_own_window);
  heap.allocations = totals.allocations;
  heap.releases = totals.releases;
  heap.earlier = totals.earlier;
  heap.ambiguous = totals.ambiguous;
  heap.not_followed = totals.not_followed;
  heap.temporary = totals.temporary;
  heap.live_blocks = totals.live_blocks;
  heap.live_bytes = totals.live_bytes;
  heap.peak_bytes = totals.peak_bytes;
  heap.peak_ps = totals.peak_bytes > 0 ? PsInWindow(facts_, timeline_, totals.peak_ticks) : 0;
  heap.widest_ps = facts_.clock.DurationPs(totals.widest_ticks);
  // The peaks of an incomplete table cannot be used to sort.
  heap.sites = SitesOf(identity, blocks, /*by_peak=*/heap.lost == 0);
  if (heap.lost == 0) return;
  timeline_.warnings.push_back(
      StrCat("the table of blocks of ", process.name, " (", process.pid, ") is incomplete: at least ", heap.lost,
             " records of the process are lost; live bytes and peaks by place are unknown, calls and bytes are at "
             "least what is shown (--buffer-size)"));
}

std::vector<HeapSite> HeapTotals::SitesOf(const Identity& identity, const HeapBlocks& blocks, bool by_peak) {
  std::map<std::pair<StringId, uint32_t>, HeapSite> merged;
  for (const HeapBlocks::Site& site : blocks.sites()) {
    const StringId name = modules_.NameOfCall(identity, site.address);
    const uint32_t place = python_.FinalPlace(site.python);
    HeapSite& all = merged[{name, place}];
    all.site = name;
    all.python = python_.LabelOf(place);
    all.calls += site.calls;
    all.bytes += site.bytes;
    all.temporary += site.temporary;
    all.live_blocks += site.live_blocks;
    AddSaturating(&all.live_bytes, site.live_bytes);
    AddSaturating(&all.peak_bytes, site.peak_bytes);
  }
  std::vector<HeapSite> sites;
  for (const auto& [key, site] : merged) sites.push_back(site);
  std::sort(sites.begin(), sites.end(), [&](const HeapSite& a, const HeapSite& b) {
    return by_peak && a.peak_bytes != b.peak_bytes ? a.peak_bytes > b.peak_bytes : a.bytes > b.bytes;
  });
  return sites;
}

uint64_t HeapTotals::LostRecords(const Identity& identity) const {
  uint64_t lost = 0;
  for (auto at = facts_.threads.lower_bound({identity.segment, 0});
       at != facts_.threads.end() && at->first.segment == identity.segment; ++at) {
    const ThreadFacts& thread = at->second;
    if (thread.process_serial != identity.serial || !thread.has_last) continue;
    for (uint32_t cause = 0; cause < kDropCauses; ++cause) {
      lost += Difference(thread.last.dropped[cause], thread.first.dropped[cause]);
    }
  }
  for (const GapFact& gap : facts_.gaps) {
    if (gap.last_ticks >= window_.open && gap.first_ticks <= window_.drained) lost += gap.records;
  }
  return lost + facts_.missing_parts + (facts_.damaged_bytes > 0 ? 1 : 0);
}

// The number of missing block records of a process, at least; 0: none. Without them a table is wrong: a block whose
// release is missing seems to be live.
uint64_t HeapTotals::LostBlocks(const Identity& identity, const HeapBlocks::Totals& totals, bool is_own_window) const {
  const uint64_t lost = LostRecords(identity);
  if (lost == 0) return 0;
  uint64_t counted = 0;
  for (auto at = facts_.threads.lower_bound({identity.segment, 0});
       at != facts_.threads.end() && at->first.segment == identity.segment; ++at) {
    const ThreadFacts& thread = at->second;
    if (thread.process_serial != identity.serial || !thread.has_last) continue;
    counted += Difference(thread.last.allocations, thread.first.allocations) +
               Difference(thread.last.frees, thread.first.frees);
  }
  // If a process was recorded from its first call to its last, the number of its calls is known.
  const uint64_t taken = totals.allocations + totals.releases;
  const bool whole =
      is_own_window && window_.totals_open == window_.open && facts_.processes.at(identity).start_ticks >= window_.open;
  return whole && counted > taken ? counted - taken : lost;
}

// Adds the launcher's counter samples: the highest of each bucket, so that a burst stays visible.
void HeapTotals::AddLooks(const std::vector<CounterFact>& counters, const HeapLevels& levels,
                          CounterTrack* track) const {
  const size_t stride = counters.size() / kMaxCounterSamples + 1;
  for (size_t begin = 0; begin < counters.size(); begin += stride) {
    const auto first = counters.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = counters.begin() + static_cast<ptrdiff_t>(std::min(begin + stride, counters.size()));
    const auto highest = std::max_element(
        first, last, [](const CounterFact& a, const CounterFact& b) { return a.live_bytes < b.live_bytes; });
    int64_t live = highest->live_bytes;
    AddSaturating(&live, levels.shift);
    track->samples.push_back(
        {PsInWindow(facts_, timeline_, highest->ticks), static_cast<double>(std::max<int64_t>(live, 0))});
  }
}

void HeapTotals::AddCountedLevels(const ProcessFacts& facts, const HeapLevels& levels, CounterTrack* track) const {
  track->peak_before = static_cast<double>(levels.peak_before_bytes);
  track->lower_bound = !levels.absolute;
  // The bytes that were live before the window.
  const Process& process = timeline_.processes[track->process];
  const bool counted = process.allocator.allocations + process.allocator.frees > 0;
  const bool was_there = facts.start_ticks < window_.open && (levels.begin_bytes > 0 || !facts.counters.empty());
  if (was_there) track->samples.push_back({0, static_cast<double>(levels.begin_bytes)});
  AddLooks(LooksInWindow(facts, window_.open, window_.close), levels, track);
  // The launcher takes no sample after a process's end, nor in its last moment.
  if (!track->samples.empty() && counted) {
    track->samples.push_back({process.end_ps, static_cast<double>(levels.live_bytes)});
  }
}

void HeapTotals::AddCounters() {
  for (const auto& [identity, index] : model_.processes()) {
    if (model_.IsForkedImage(identity)) continue;
    const ProcessFacts& facts = facts_.processes[identity];
    CounterTrack track;
    track.name = kHeapTrack;
    track.series = "bytes";
    track.process = index;
    const auto exact = blocks_.find(identity);
    // If a process existed before the window, its bytes from before are not known.
    const bool is_known = exact != blocks_.end() && timeline_.processes[index].exact_heap.lost == 0;
    if (is_known && !facts.forked && facts.start_ticks >= window_.open) {
      for (const HeapBlocks::Sample& sample : exact->second.curve()) {
        track.samples.push_back({PsInWindow(facts_, timeline_, sample.ticks), static_cast<double>(sample.bytes)});
      }
    } else {
      AddCountedLevels(facts, levels_[identity], &track);
    }
    std::stable_sort(track.samples.begin(), track.samples.end(),
                     [](const CounterSample& a, const CounterSample& b) { return a.time_ps < b.time_ps; });
    if (!track.samples.empty()) timeline_.counters.push_back(std::move(track));
  }
}

}  // namespace tbprof
