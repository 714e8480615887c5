// SPDX-License-Identifier: Apache-2.0
//
// Sampled stacks as trees: all, its processes, their threads, and the frames of each thread, outermost first.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_FLAMEGRAPH_TREE_H_
#define TBPROF_WRITER_OUTPUTS_FLAMEGRAPH_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// The numbers are in the file.
enum class FlameOrigin : uint8_t {
  kAll = 0,
  kProcess = 1,
  kThread = 2,
  kProgram = 3,  // Python code of the program
  kLibrary = 4,  // Python code of the standard library and of installed packages
  kNative = 5,
  kUnknown = 6,  // stands for frames that are not known
  kSmaller = 7,  // stands for several nodes
};

struct FlameFrame {
  std::string name;
  std::string group;  // the file or module: frames of a group have one colour
  std::string place;  // path of the source file; empty: not known
  FlameOrigin origin = FlameOrigin::kAll;
};

struct FlameNode {
  uint32_t parent = 0;  // index of a node before it
  uint32_t frame = 0;   // index into FlameTree::frames
  uint32_t depth = 0;   // 0: the root
  // Without the nodes below. Times are never negative.
  uint64_t samples = 0;
  int64_t time_ns = 0;  // of Python all time, of native code CPU time
  int64_t cpu_ns = 0;
};

struct FlameTree {
  std::vector<FlameFrame> frames;
  std::vector<FlameNode> nodes;  // node 0 is the root; empty: there are no samples
  uint64_t merged = 0;           // nodes that a node of kSmaller stands for
};

FlameTree PythonFlameTree(const Timeline& timeline);
FlameTree NativeFlameTree(const Timeline& timeline);

// Puts the nodes into preorder, of each node the longest child first. Above `most` nodes, the shortest are merged: each
// node has at most one node of kSmaller, with the sums of those below it that are left out.
void OrderFlameTree(size_t most, FlameTree* tree);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_FLAMEGRAPH_TREE_H_
