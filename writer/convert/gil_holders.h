// SPDX-License-Identifier: Apache-2.0
//
// From the samples of threads that held the GIL to PythonTimeline::holders and gil_spans.
//
//   GilHolders holders(&window, &facts, &model, &stacks, &timeline);
//   holders.Take(frame);        // each frame of the second pass
//   holders.Finish(bytes_left); // once, before PythonSamples::Finish
//
// Process: converter, one thread. Untrusted: all of a frame. Memory: kMostGilHolders samples; of more, a part
// that is spread evenly.
#ifndef TBPROF_WRITER_CONVERT_GIL_HOLDERS_H_
#define TBPROF_WRITER_CONVERT_GIL_HOLDERS_H_

#include <cstddef>
#include <cstdint>

#include "writer/convert/capture_window.h"
#include "writer/convert/process_model.h"
#include "writer/convert/python_stacks.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostGilHolders = 1u << 20;

class GilHolders {
 public:
  // All must outlive this. `most`: kMostGilHolders except in tests.
  GilHolders(const CaptureWindow* window, const SpoolFacts* facts, ProcessModel* model, PythonStacks* stacks,
             Timeline* timeline, size_t most = kMostGilHolders)
      : window_(*window), facts_(*facts), model_(*model), stacks_(*stacks), timeline_(*timeline), most_(most) {}

  // Ignores all frames except kGilHolders.
  void Take(const Frame& frame);
  // `most_bytes`: limit of the spans in the xplane file. Returns the bytes that they take.
  uint64_t Finish(uint64_t most_bytes);

 private:
  void AddSpans(uint64_t most_bytes);
  void TakeRow(const PythonProcessFacts& process, uint32_t owner, const GilHolderRow& row);

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  ProcessModel& model_;
  PythonStacks& stacks_;
  Timeline& timeline_;
  const size_t most_;
  uint64_t seen_ = 0, every_ = 1;  // each `every_`th sample is kept
  uint64_t corrupt_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GIL_HOLDERS_H_
