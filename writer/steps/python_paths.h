// SPDX-License-Identifier: Apache-2.0
//
// Maps a stack to its path in the program's own code: its frames and their lines, without the frames of libraries. Work
// that a library does for a line of the program belongs to that line.
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
  // A frame of the program at a line, and its callers at their lines.
  struct Path {
    uint32_t parent = 0;  // the caller's path; 0: this frame is the outermost
    uint32_t stack = 0;   // one of the stacks with this path: index into PythonTimeline::stacks
    uint32_t frame = 0;   // the same for all lines of one function that is called at the same path
    uint32_t depth = 0;   // number of the program's frames; 0: none
  };

  explicit PythonPaths(const Timeline& timeline);

  // The path of a stack (index into PythonTimeline::stacks). 0: the stack has no frame of the program.
  uint32_t Of(uint32_t stack) const { return stack < of_stacks_.size() ? of_stacks_[stack] : 0; }
  bool Imports(uint32_t stack) const { return stack < imports_.size() && imports_[stack]; }
  // Whether a framework compiles on the stack: how often it waits then tells nothing of the loop.
  bool Compiles(uint32_t stack) const { return stack < compiles_.size() && compiles_[stack]; }
  const Path& operator[](uint32_t path) const { return paths_[path]; }
  size_t size() const { return paths_.size(); }
  // Returns the path itself or the caller of it that has `depth` frames.
  uint32_t At(uint32_t path, uint32_t depth) const;

 private:
  std::vector<Path> paths_;
  std::vector<uint32_t> of_stacks_;  // by stack
  std::vector<bool> imports_;        // by stack
  std::vector<bool> compiles_;       // by stack
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_PYTHON_PATHS_H_
