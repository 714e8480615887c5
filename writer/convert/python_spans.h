// SPDX-License-Identifier: Apache-2.0
//
// Spans of the timeline from runs of sampled stacks: each frame that consecutive samples share, from the outermost on,
// is one span, if it is shown (ShownFrames). A gap of more than 2.5 periods ends all spans. Within a budget of bytes:
// the shortest spans are removed first.
//
// Process: converter, one thread. Memory: bounded by twice the budget.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_SPANS_H_
#define TBPROF_WRITER_CONVERT_PYTHON_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "writer/convert/event_budget.h"
#include "writer/timeline/shown_frames.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The size of a span in the xplane file.
inline constexpr uint64_t kPythonSpanBytes = 36;

// Sets from_ps and to_ps of the runs of a thread: up to the middle between two runs, half a period around samples
// without a neighbour, within [0, duration_ps].
void SetExtents(int64_t duration_ps, std::vector<PythonRun>* runs);

class PythonSpans {
 public:
  // `python` must outlive this.
  PythonSpans(const StringTable& strings, PythonTimeline* python, uint64_t most_bytes);

  // Fills PythonTimeline::threads[index].spans from its runs. Call for each index once, ascending.
  void Add(size_t index);
  // Call after the last Add: keeps the spans that the budget allows, in order. Returns their bytes in the file.
  uint64_t Finish();

 private:
  struct OpenSpan {
    uint32_t function = 0;
    uint32_t samples = 0;
    int64_t start_ps = 0;
    std::vector<std::pair<int32_t, uint32_t>> lines;  // (line, samples at it)
  };

  void Open(uint32_t function, int64_t at_ps);
  void CloseDownTo(size_t depth, int64_t at_ps, std::vector<PythonSpan>* spans);
  void Keep(const PythonSpan& span, std::vector<PythonSpan>* spans);
  void Trim();

  PythonTimeline& python_;
  const ShownFrames shown_;
  uint64_t most_spans_;
  uint64_t kept_ = 0;
  LengthCut cut_;
  std::vector<OpenSpan> open_;  // only the first `depth_` entries are open
  size_t depth_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_SPANS_H_
