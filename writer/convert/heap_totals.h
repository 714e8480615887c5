// SPDX-License-Identifier: Apache-2.0
//
// The heap of each process: allocations and releases, live bytes over time, and with --malloc=exact the history of each
// block.
//
// Process: converter, one thread. Memory: bounded by kMaxBlocks blocks of all processes together.
#ifndef TBPROF_WRITER_CONVERT_HEAP_TOTALS_H_
#define TBPROF_WRITER_CONVERT_HEAP_TOTALS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "writer/convert/call_totals.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/event_types.h"
#include "writer/convert/heap_blocks.h"
#include "writer/convert/heap_levels.h"
#include "writer/convert/process_model.h"
#include "writer/convert/process_modules.h"
#include "writer/convert/python_exact.h"
#include "writer/spool/spool.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class HeapTotals {
 public:
  // The number of blocks for which the hash table takes 100 MB.
  static constexpr size_t kMaxBlocks = (1u << 22) / 8 * 7;

  // All must outlive this.
  HeapTotals(const CaptureWindow* window, const ProcessModel* model, ProcessModules* modules, SpoolFacts* facts,
             Timeline* timeline, PythonExact* python)
      : window_(*window), model_(*model), modules_(*modules), facts_(*facts), timeline_(*timeline), python_(*python) {}

  // --malloc=exact: takes the blocks in one chunk of a process. Passes its Python stacks to PythonExact.
  void TakeBlocks(const Frame& frame, const ChunkFact& chunk, const Identity& process);

  // Fills Process::allocator, and adds the calls that have no record to `totals`.
  void AddAllocatorTotals(EventTypes* types, CallTotals* totals);
  // Fills Process::exact_heap. `is_own_window`: the capture shows the run's own window, from its start.
  void AddExactHeaps(bool is_own_window);
  // Adds the live bytes over time. Call after the other two.
  void AddCounters();

  // Call after these. Null: no blocks were recorded. Also works for a process before its exec.
  const HeapBlocks* BlocksOf(const Identity& process) const {
    const auto found = blocks_.find(process);
    return found == blocks_.end() ? nullptr : &found->second;
  }
  HeapLevels LevelsOf(const Identity& process) const {
    const auto found = levels_.find(process);
    return found == levels_.end() ? HeapLevels{} : found->second;
  }
  // The number of missing records of the process, at least.
  uint64_t LostRecords(const Identity& process) const;

 private:
  void AddCountedCalls(const Identity& thread, uint32_t process, EventTypes* types, CallTotals* totals);
  void AddLevels();
  void AddExactHeap(const Identity& identity, const HeapBlocks& blocks, bool is_own_window);
  std::vector<HeapSite> SitesOf(const Identity& identity, const HeapBlocks& blocks, bool by_peak);
  uint64_t LostBlocks(const Identity& identity, const HeapBlocks::Totals& totals, bool is_own_window) const;
  void AddLooks(const std::vector<CounterFact>& counters, const HeapLevels& levels, CounterTrack* track) const;
  void AddCountedLevels(const ProcessFacts& facts, const HeapLevels& levels, CounterTrack* track) const;

  const CaptureWindow& window_;
  const ProcessModel& model_;
  ProcessModules& modules_;
  SpoolFacts& facts_;
  Timeline& timeline_;
  PythonExact& python_;
  size_t room_for_blocks_ = kMaxBlocks;
  std::map<Identity, HeapBlocks> blocks_;
  std::map<Identity, HeapLevels> levels_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HEAP_TOTALS_H_
