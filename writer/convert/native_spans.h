// SPDX-License-Identifier: Apache-2.0
//
// Spans of the timeline from native samples of a thread: each frame that consecutive samples share, from the outermost
// on, is one span. Of Python's interpreter, which calls itself for each function of the program, only the outermost
// frame and the innermost of all are shown. A gap of more than 2.5 periods ends all spans: the thread did not run, or
// ran in the kernel. Within a budget of bytes: the shortest spans are removed first.
//
// Process: converter, one thread. Memory: bounded by twice the budget.
#ifndef TBPROF_WRITER_CONVERT_NATIVE_SPANS_H_
#define TBPROF_WRITER_CONVERT_NATIVE_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "writer/convert/event_budget.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The size of a span in the xplane file.
inline constexpr uint64_t kNativeSpanBytes = 32;

class NativeSpans {
 public:
  // `native` must outlive this, and has all its stacks.
  NativeSpans(const StringTable& strings, NativeTimeline* native, int64_t duration_ps, uint64_t most_bytes);

  // Fills NativeTimeline::threads[index].spans from its points, which lie in [0, duration_ps]. Call once per index.
  void Add(size_t index);
  // Call after the last Add: keeps the spans that the budget allows, in order. Returns their bytes in the file.
  uint64_t Finish();

 private:
  struct OpenSpan {
    uint32_t stack = 0;
    uint32_t samples = 0;
    int64_t start_ps = 0;
  };

  bool IsSameFunction(uint32_t a, uint32_t b) const;
  // The stacks of the shown frames, the outermost first.
  void FramesOf(uint32_t stack, std::vector<uint32_t>* frames) const;
  void CloseDownTo(size_t depth, int64_t at_ps, std::vector<NativeSpan>* spans);
  void Keep(const NativeSpan& span, std::vector<NativeSpan>* spans);
  void Trim();

  NativeTimeline& native_;
  std::vector<bool> are_inner_;  // by stack: a frame of the interpreter that another one called
  int64_t duration_ps_;
  uint64_t most_spans_;
  uint64_t kept_ = 0;
  LengthCut cut_;
  std::vector<OpenSpan> open_;
};

// Takes the waits that the thread's exact events show out of the spans of all threads: a sample of CPU time stands for
// the time around it, in which the thread may have waited. Call after the events are known. Threads whose pieces take
// more than is left of `most_bytes` keep their spans. Returns the bytes in the file that the spans have more than
// before.
uint64_t CutSpansAtWaits(Timeline* timeline, uint64_t most_bytes);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NATIVE_SPANS_H_
