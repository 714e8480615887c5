// SPDX-License-Identifier: Apache-2.0
//
// From the sampled native stacks of a spool to Timeline::native: checks each sample, finds its thread, adds it up by
// stack, and makes spans. The sampling status of each process and its problems are added to the timeline, too.
//
//   NativeSamples native(&window, &facts, &model, &modules, &timeline);
//   native.Take(frame);             // each frame of the second pass
//   native.Finish(bytes_left);      // once
//
// Process: converter, one thread. Untrusted: all of a frame. Memory: kMostNativePoints, beyond which samples are only
// added up, and the budget of spans.
#ifndef TBPROF_WRITER_CONVERT_NATIVE_SAMPLES_H_
#define TBPROF_WRITER_CONVERT_NATIVE_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/conservation.h"
#include "writer/convert/native_stacks.h"
#include "writer/convert/process_model.h"
#include "writer/convert/process_modules.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostNativePoints = 4u << 20;

class NativeSamples {
 public:
  // All must outlive this. `most_points`: kMostNativePoints except in tests.
  NativeSamples(const CaptureWindow* window, const SpoolFacts* facts, ProcessModel* model, ProcessModules* modules,
                Conservation* conservation, Timeline* timeline, size_t most_points = kMostNativePoints)
      : window_(*window),
        facts_(*facts),
        model_(*model),
        conservation_(*conservation),
        timeline_(*timeline),
        stacks_(modules, timeline),
        most_points_(most_points) {}

  // Takes a frame of type kNativeSamples.
  void Take(const Frame& frame);
  // For stacks that are not samples.
  NativeStacks* stacks() { return &stacks_; }
  // `most_bytes`: limit of the spans in the xplane file. Returns the bytes that they take.
  uint64_t Finish(uint64_t most_bytes);

 private:
  struct RawPoint {
    uint64_t ticks = 0;
    uint32_t stack = 0, period_us = 0;
  };
  struct Line {
    std::vector<RawPoint> points;
    absl::flat_hash_map<uint32_t, NativeTally> tallies;  // by stack
  };

  void TakeSample(const Identity& identity, const NativeProcessFacts& process, uint32_t owner,
                  const NativeSample& sample);
  void AddProcesses();
  void AddNotes();
  void AddCoverage(uint64_t samples_of_run);

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  ProcessModel& model_;
  Conservation& conservation_;
  Timeline& timeline_;
  NativeStacks stacks_;
  std::map<uint32_t, Line> lines_;  // by index into Timeline::threads
  size_t most_points_, points_ = 0;
  uint64_t corrupt_ = 0, left_out_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NATIVE_SAMPLES_H_
