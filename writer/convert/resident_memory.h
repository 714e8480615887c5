// SPDX-License-Identifier: Apache-2.0
//
// From the readings of a process's memory in a spool to Process::resident, and to a counter track.
//
//   ResidentLines resident(&window, &facts, &model, &timeline);
//   resident.Take(frame);       // each frame of the second pass
//   resident.Finish();          // once, when the timeline has steps
//
// Process: converter, one thread. Untrusted: all of a frame. Memory: kMostResidentPoints for each process; of more, a
// part that is spread evenly.
#ifndef TBPROF_WRITER_CONVERT_RESIDENT_MEMORY_H_
#define TBPROF_WRITER_CONVERT_RESIDENT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "writer/convert/capture_window.h"
#include "writer/convert/process_model.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostResidentPoints = 1u << 12;

class ResidentLines {
 public:
  // All must outlive this. `most`: kMostResidentPoints except in tests.
  ResidentLines(const CaptureWindow* window, const SpoolFacts* facts, ProcessModel* model, Timeline* timeline,
                size_t most = kMostResidentPoints)
      : window_(*window), facts_(*facts), model_(*model), timeline_(*timeline), most_(most) {}

  // Ignores all frames except kResidentMemory.
  void Take(const Frame& frame);
  void Finish();

 private:
  struct Readings {
    std::vector<ResidentPoint> points;
    ResidentPoint highest;         // of all readings
    uint64_t seen = 0, every = 1;  // each `every`th reading is kept
    int64_t peak_bytes = 0;
  };
  // The time at which the process starts another program in its place; UINT64_MAX: it does not.
  uint64_t ExecOf(const Identity& process);
  void TakeRow(uint32_t owner, const ResidentRow& row);
  void FinishProcess(uint32_t index, Readings* readings);

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  ProcessModel& model_;
  Timeline& timeline_;
  const size_t most_;
  std::map<uint32_t, Readings> readings_;  // by index into Timeline::processes
  std::map<Identity, uint64_t> execs_;     // by process: its last exec that did not return
  bool has_execs_ = false;                 // they were looked for
  uint64_t corrupt_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_RESIDENT_MEMORY_H_
