// SPDX-License-Identifier: Apache-2.0
//
// Python in the xplane file: the lines of sampled stacks, each beneath that of its thread, and the stats of calls whose
// stack is known. Sampled borders are inexact: on the thread's own line they would overlap exact events without
// nesting.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_PYTHON_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_PYTHON_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Of a thread, by its index into Timeline::threads.
inline size_t PythonSpanCount(const Timeline& timeline, uint32_t thread) {
  const PythonThread* samples = timeline.python.OfThread(thread);
  return samples == nullptr ? 0 : samples->spans.size();
}

// The texts of Python stacks that events refer to, on one plane.
class PythonTexts {
 public:
  // Stacks beyond are given by their innermost frames alone, so that they do not take more than the events themselves.
  static constexpr size_t kMostStacks = 1u << 15;
  static constexpr size_t kCallers = 8;

  // Both must outlive this.
  PythonTexts(const Timeline& timeline, PlaneBuilder* plane) : timeline_(timeline), plane_(plane) {}

  // `stack`: index into PythonTimeline::stacks, not 0.
  void Write(uint32_t stack, LineBuilder& line);

 private:
  struct Ids {
    uint32_t line = 0, stack = 0;  // of texts of the plane; 0: none
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

  // Nothing where the thread has no spans. `thread_line`: the name of its own line.
  void Write(uint32_t thread, std::string_view thread_line, uint64_t* line_id);

 private:
  uint32_t EventIdOf(uint32_t function);

  const Timeline& timeline_;
  PlaneBuilder* plane_;
  std::vector<uint32_t> event_ids_;  // by function; 0: none yet
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_PYTHON_H_
