// SPDX-License-Identifier: Apache-2.0
//
// From the samples of blocked threads in a spool to Timeline::blocked.
//
//   BlockedLines blocked(&window, &facts, &model, &modules, &timeline);
//   blocked.Take(frame);        // each frame of the second pass
//   blocked.Finish();           // once
//
// Process: converter, one thread. Untrusted: all of a frame. Memory: kMostBlockedRuns; later runs are left out, and
// shares then cover only the earlier part of the recording.
#ifndef TBPROF_WRITER_CONVERT_THREAD_BLOCKED_H_
#define TBPROF_WRITER_CONVERT_THREAD_BLOCKED_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "writer/convert/capture_window.h"
#include "writer/convert/process_model.h"
#include "writer/convert/process_modules.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostBlockedRuns = 1u << 20;

class BlockedLines {
 public:
  // All must outlive this.
  BlockedLines(const CaptureWindow* window, const SpoolFacts* facts, ProcessModel* model, ProcessModules* modules,
               Timeline* timeline)
      : window_(*window), facts_(*facts), model_(*model), modules_(*modules), timeline_(*timeline) {}

  // Ignores all frames except kThreadBlocked and kBlockedCalls.
  void Take(const Frame& frame);
  void Finish();

 private:
  void TakeRow(const Identity& process, uint32_t owner, const BlockedCallRow& row);

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  ProcessModel& model_;
  ProcessModules& modules_;
  Timeline& timeline_;
  std::map<uint32_t, std::vector<BlockedRun>> runs_;  // by index into Timeline::threads
  size_t count_ = 0;
  uint64_t corrupt_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_THREAD_BLOCKED_H_
