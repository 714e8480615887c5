// SPDX-License-Identifier: Apache-2.0
//
// Python in the xplane file: the lines of sampled stacks, each below the line of its thread, and the stats of calls
// with a known stack. Sampled borders are inexact: on the thread's own line they would overlap exact events without
// nesting.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_PYTHON_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_PYTHON_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// `thread`: index into Timeline::threads.
inline size_t PythonSpanCount(const Timeline& timeline, uint32_t thread) {
  const PythonThread* samples = timeline.python.OfThread(thread);
  return samples == nullptr ? 0 : samples->spans.size();
}

// The spans of PythonTimeline::gil_spans of a process. Processes that share a row have no such line.
std::span<const GilSpan> GilSpansOf(const Timeline& timeline, uint32_t process);

// The texts of Python stacks that the events of one plane refer to.
class PythonTexts {
 public:
  // Further stacks are written as their innermost frame only, so that they do not take more space than the events.
  static constexpr size_t kMostStacks = 1u << 15;
  static constexpr size_t kCallers = 8;

  // Both must outlive this.
  PythonTexts(const Timeline& timeline, PlaneBuilder* plane) : timeline_(timeline), plane_(plane) {}

  // `stack`: index into PythonTimeline::stacks, not 0.
  void Write(uint32_t stack, LineBuilder& line);

 private:
  struct Ids {
    uint32_t line = 0, stack = 0;  // ids of texts of the plane; 0: none
  };

  const Timeline& timeline_;
  PlaneBuilder* plane_;
  absl::flat_hash_map<uint32_t, Ids> ids_;
};

class PythonLineWriter {
 public:
  // Both must outlive this.
  PythonLineWriter(const Timeline& timeline, PlaneBuilder* plane)
      : timeline_(timeline), plane_(plane), event_ids_(timeline.python.functions.size()) {}

  // Writes nothing if the thread has no spans. `thread_line`: the name of the thread's own line.
  void Write(uint32_t thread, std::string_view thread_line, uint64_t* line_id);
  // Likewise, who held the GIL of a process.
  void WriteGil(uint32_t process, uint64_t* line_id);

 private:
  uint32_t EventIdOf(uint32_t function);
  uint32_t ThreadIdOf(uint32_t thread);

  const Timeline& timeline_;
  PlaneBuilder* plane_;
  std::vector<uint32_t> event_ids_;  // by function; 0: none yet
  absl::flat_hash_map<uint32_t, uint32_t> thread_ids_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_PYTHON_H_
