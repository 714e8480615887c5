// SPDX-License-Identifier: Apache-2.0
//
// The lines of sampled native stacks in the xplane file, each below the line of its thread and its Python line. As with
// Python, sampled borders are inexact and would overlap exact events.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_NATIVE_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_NATIVE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// `thread`: index into Timeline::threads.
inline size_t NativeSpanCount(const Timeline& timeline, uint32_t thread) {
  const NativeThread* samples = timeline.native.OfThread(thread);
  return samples == nullptr ? 0 : samples->spans.size();
}

// `gemm_kernel [libblas.so.3]`: exact events have no such names.
std::string NativeLabel(const Timeline& timeline, const NativeStack& stack);

class NativeLineWriter {
 public:
  // Both must outlive this.
  NativeLineWriter(const Timeline& timeline, PlaneBuilder* plane) : timeline_(timeline), plane_(plane) {}

  // Writes nothing if the thread has no spans. `thread_line`: the name of the thread's own line.
  void Write(uint32_t thread, std::string_view thread_line, uint64_t* line_id);

 private:
  uint32_t EventIdOf(const NativeStack& stack);

  const Timeline& timeline_;
  PlaneBuilder* plane_;
  absl::flat_hash_map<std::pair<StringId, StringId>, uint32_t> event_ids_;  // by function and module
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_NATIVE_H_
