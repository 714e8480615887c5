// SPDX-License-Identifier: Apache-2.0
//
// The memory in the heap of each process: its peak, the live bytes at the peak by place, and the growth. From each
// block if all were recorded, else from samples.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_PROCESS_MEMORY_H_
#define TBPROF_WRITER_CONVERT_PROCESS_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "writer/convert/allocation_sites.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/heap_totals.h"
#include "writer/convert/memory_trend.h"
#include "writer/convert/process_model.h"
#include "writer/convert/process_modules.h"
#include "writer/convert/python_exact.h"
#include "writer/convert/sampled_heap.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class ProcessMemories {
 public:
  struct Sources {
    const CaptureWindow& window;
    const ProcessModel& model;
    SpoolFacts& facts;
    ProcessModules& modules;
    PythonExact& python;
    const HeapTotals& heap;
    AllocationSites& sites;
    const SampledHeap& sampled;
  };

  ProcessMemories(const Sources& sources, Timeline* timeline) : from_(sources), timeline_(*timeline) {}

  // Fills Process::memory. The timeline must have steps and counter tracks; the peaks are added to these tracks.
  void Add();

 private:
  // A moment as ticks and as time of the timeline.
  struct Moment {
    uint64_t ticks = 0;
    int64_t ps = 0;
  };
  struct Span {
    Moment from, to;
    uint64_t steps = 0;
  };

  void AddProcess(const Identity& identity, uint32_t index);
  // `heap`: its live bytes, in order of time.
  void AddBeyond(uint32_t index, const std::vector<MemoryLevel>& heap);
  void LeaveOutImports(Process* process);
  void AddExact(const Identity& identity, const HeapBlocks& blocks, const Span& span, Process* process);
  void AddSampled(const Identity& identity, uint64_t peak_ticks, const Span& span, Process* process);
  Moment PeakMoment(const Identity& identity, const std::vector<SampledHeap::Level>& levels, int64_t peak) const;
  void ScaleToPeak(const Identity& identity, absl::flat_hash_map<uint32_t, SampledHeap::Held>* sites, double sum,
                   double sure, HeldMemory* memory);
  std::vector<HeldBytes> RowsOf(const absl::flat_hash_map<uint32_t, SampledHeap::Held>& sites);
  HeldBytes PlaceOfExact(const Identity& identity, const HeapBlocks::Site& site);
  // The live bytes of the process in the window, in order of time.
  std::vector<SampledHeap::Level> LevelsOf(const Identity& identity) const;
  void AddPeakToTrack(uint32_t index);
  Moment At(uint64_t ticks) const { return {ticks, PsInWindow(from_.facts, timeline_, ticks)}; }
  uint64_t TicksOf(int64_t ps) const;

  const Sources from_;
  Timeline& timeline_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PROCESS_MEMORY_H_
