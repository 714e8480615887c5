// SPDX-License-Identifier: Apache-2.0
//
// Reads from a spool the facts about sampled native stacks, without the samples: frames, and the state of sampling.
// Read in the first pass, so that the second pass can look up its samples.
//
// Process: converter, one thread. Untrusted: all numbers and texts; invalid facts are counted. Memory: bounded by the
// limits below, whatever the spool's size.
#ifndef TBPROF_WRITER_SPOOL_NATIVE_FACTS_H_
#define TBPROF_WRITER_SPOOL_NATIVE_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/spool/sampled_facts.h"
#include "writer/spool/spool.h"

namespace tbprof {

// Of all processes together.
inline constexpr size_t kMostNativeNodes = 4u << 20;
// Deeper frames are left out of a stack, the innermost first.
inline constexpr uint32_t kDeepestNativeStack = 1024;

struct NativeFrameFact {
  uint32_t parent = 0;   // index into NativeProcessFacts::frames; 0: none
  uint32_t depth = 0;    // 1: the outermost
  uint64_t address = 0;  // as NativeNode::address
};

struct NativeProcessFacts {
  std::vector<NativeFrameFact> frames{1};  // a parent is before its children: no cycles
  NativeStatusFact status{};
  bool has_status = false;
  std::string reason;                                  // of `status`
  absl::flat_hash_map<uint32_t, uint32_t> node_index;  // by the spool's number

  // Index into `frames`; 0: node 0, or an unknown node.
  uint32_t FrameOf(uint32_t node) const {
    const auto found = node_index.find(node);
    return found == node_index.end() ? 0 : found->second;
  }
};

class NativeFacts : public SampledFacts<NativeProcessFacts> {
 public:
  // False: the frame is not about native stacks. Samples are left to the second pass.
  bool Take(const Frame& frame);

 private:
  void TakeStacks(const Frame& frame);
  void TakeNode(const NativeNode& node, NativeProcessFacts* process);
  void TakeStatus(const Frame& frame);

  size_t nodes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_NATIVE_FACTS_H_
