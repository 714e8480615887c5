// SPDX-License-Identifier: Apache-2.0
//
// The Python frames of all processes of a spool as functions and stacks of the timeline. Workers of one program share
// them.
//
// Process: converter, one thread. Memory: bounded by the size of PythonFacts.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_STACKS_H_
#define TBPROF_WRITER_CONVERT_PYTHON_STACKS_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/spool/python_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class PythonStacks {
 public:
  // Must outlive this.
  explicit PythonStacks(Timeline* timeline);

  // Index into PythonTimeline::stacks. `frame`: index into the frames of `process`, which must outlive this.
  uint32_t StackOf(const PythonProcessFacts& process, uint32_t frame);

  // Index into PythonTimeline::functions.
  uint32_t FunctionOf(const PythonCode& code);
  // Returns an index into PythonTimeline::stacks; 0: the stack is not there, and `may_grow` is false.
  uint32_t Add(const PythonStack& frame, bool may_grow = true);

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  struct KnownProcess {
    std::vector<uint32_t> functions;  // by code
    std::vector<uint32_t> stacks;     // by frame
  };

  uint32_t FunctionOf(const PythonProcessFacts& process, uint32_t code, KnownProcess* known);

  Timeline& timeline_;
  absl::flat_hash_map<const PythonProcessFacts*, KnownProcess> processes_;
  absl::flat_hash_map<std::tuple<StringId, StringId, int32_t>, uint32_t> functions_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t> stacks_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_STACKS_H_
