// SPDX-License-Identifier: Apache-2.0
//
// Where a stack is in the program's own code: its frames of the program itself, lines included, without those of
// libraries. What a library does at a line of the program's is part of that line.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_PYTHON_PATHS_H_
#define TBPROF_WRITER_STEPS_PYTHON_PATHS_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class PythonPaths {
 public:
  // A frame of the program's at a line, and its callers at theirs.
  struct Path {
    uint32_t parent = 0;  // index of a path; 0: the outermost
    uint32_t stack = 0;   // one of those that have it: index into PythonTimeline::stacks
    uint32_t frame = 0;   // the same for all lines of one function that was called at the same path
    uint32_t depth = 0;   // frames of the program's; 0: none
  };

  explicit PythonPaths(const Timeline& timeline);

  // Of an index into PythonTimeline::stacks. 0: it has no frame of the program's.
  uint32_t Of(uint32_t stack) const { return stack < of_stacks_.size() ? of_stacks_[stack] : 0; }
  bool Imports(uint32_t stack) const { return stack < imports_.size() && imports_[stack]; }
  const Path& operator[](uint32_t path) const { return paths_[path]; }
  size_t size() const { return paths_.size(); }
  // The one of its callers, or itself, that has that many frames.
  uint32_t At(uint32_t path, uint32_t depth) const;

 private:
  std::vector<Path> paths_;
  std::vector<uint32_t> of_stacks_;  // by stack
  std::vector<bool> imports_;        // likewise
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_PYTHON_PATHS_H_
