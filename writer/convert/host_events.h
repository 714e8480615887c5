// SPDX-License-Identifier: Apache-2.0
//
// Holds the events of threads and other host lines while the spool is read, and selects the events that fit into the
// profile. If there are too many, the shortest are removed: first those of host threads, then CUDA calls, work of
// devices last. In a part of the window, all are kept (full_detail.h).
//
//   HostEvents events(&facts, &timeline);
//   events.Begin(most_bytes, open, close, middle);
//   events.Keep(line, event);          // many times
//   events.Finish(names_of_sites);     // into Thread::events, with times in picoseconds
//
// Process: converter, one thread. Memory: bounded by the budget.
#ifndef TBPROF_WRITER_CONVERT_HOST_EVENTS_H_
#define TBPROF_WRITER_CONVERT_HOST_EVENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "writer/convert/conservation.h"
#include "writer/convert/event_budget.h"
#include "writer/convert/full_detail.h"
#include "writer/convert/raw_event.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class HostEvents {
 public:
  // All must outlive this.
  HostEvents(const SpoolFacts* facts, Conservation* conservation, Timeline* timeline)
      : facts_(*facts), conservation_(*conservation), timeline_(*timeline) {}

  // `open`, `close`: of the window, in ticks; if equal, no part of it has full detail. `middle`: of that part.
  void Begin(uint64_t most_bytes, uint64_t open = 0, uint64_t close = 0, uint64_t middle = 0);
  // A hint: about `count` events follow for the line.
  void Expect(uint32_t line, uint64_t count);
  // Events of the type may be the program's steps: they have a share of the budget, whatever their length.
  void MayBeSteps(uint16_t type);

  // `line`: index into Timeline::threads. An event that the budget does not allow counts as not drawn. Instants have no
  // length to select by: outside of the full detail,
  // the first that come get a quarter of the budget.
  void Keep(uint32_t line, const RawEvent& event);
  // `stream`: index into Timeline::gpu_streams.
  void KeepOnDevice(uint32_t stream, const GpuEvent& event);

  // The events of a line, in the order of their arrival.
  const std::vector<RawEvent>& Of(uint32_t line) { return LineAt(line).events; }
  // Also updates the size of the event in the file, which depends on the value. `index`: in Of(line).
  void SetValue(uint32_t line, size_t index, uint64_t value);
  // Likewise. Returns false if the budget does not allow it.
  bool SetPython(uint32_t line, size_t index, uint32_t python);

  // The expected size of all kept events in the file.
  uint64_t Bytes() const;
  bool CutsHost() const { return cuts_[kHostSpans].cuts(); }
  bool CutsGpu() const { return cuts_[kGpuCalls].cuts() || cuts_[kGpuWork].cuts(); }

  // Moves the events into the timeline, in picoseconds, ordered and nested. `names`: of sites, by their numbers.
  void Finish(const std::vector<StringId>& names);

 private:
  enum Cuttable { kHostSpans, kGpuCalls, kGpuWork, kCuttables };
  struct RawWait {
    uint64_t start, duration;  // ticks
    uint32_t site;
    uint16_t type;
  };
  struct Line {
    std::vector<RawEvent> events;
    std::vector<RawWait> cut_waits;
  };

  Line& LineAt(uint32_t index) {
    if (index >= lines_.size()) lines_.resize(std::max<size_t>(timeline_.threads.size(), index + 1));
    return lines_[index];
  }
  Cuttable CuttableOf(uint16_t type) const {
    return timeline_.types[type].value == ValueKind::kCorrelation ? kGpuCalls : kHostSpans;
  }
  uint32_t BytesOf(const RawEvent& event) const;
  void Add(uint32_t line, const RawEvent& event, bool may_be_step, uint64_t* sum);
  // Whether the event is in the full detail, or passes the cuts so far.
  bool Fits(const RawEvent& event) const;
  bool Fits(const GpuEvent& event) const;
  void Count(const GpuEvent& event);
  // The sum of kept bytes that the event is part of.
  uint64_t* SumOf(const RawEvent& event);
  uint64_t DeviceBytes() const;
  void CountCut(ConservedKind kind);
  void RememberCut(uint32_t line, const RawEvent& event);
  void Trim();
  void TrimToShares();
  void ShrinkDetail(uint64_t most);
  void CountAgain();
  void TrimHost(Cuttable kind, uint64_t most);
  void TrimDevices(uint64_t most);
  void FinishWaits(const std::vector<StringId>& names, const std::vector<RawWait>& raw, std::vector<CutWait>* waits);
  void FinishThresholds();

  const SpoolFacts& facts_;
  Conservation& conservation_;
  Timeline& timeline_;
  std::vector<Line> lines_;  // parallel to Timeline::threads
  uint64_t most_bytes_ = 0;
  double ps_per_tick_ = 0;
  uint64_t expected_ = 0;              // events that room was reserved for
  FullDetail detail_;                  // in ticks
  uint64_t detail_bytes_ = 0;          // of all events in it but those of step_bytes_
  uint64_t kept_bytes_[kCuttables]{};  // outside of it, except for kGpuWork
  uint64_t instant_bytes_ = 0;         // outside of it
  uint64_t step_bytes_ = 0;
  uint64_t device_events_ = 0;  // outside of it
  size_t cut_waits_ = 0, cut_gpu_calls_ = 0;
  std::vector<bool> step_types_;
  LengthCut cuts_[kCuttables];  // in ticks
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HOST_EVENTS_H_
