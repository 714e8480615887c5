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

class NativeFacts {
 public:
  // False: the frame is not about native stacks. Samples are left to the second pass.
  bool Take(const Frame& frame);

  // By segment and serial of the process.
  using Processes = std::map<std::pair<uint32_t, uint32_t>, NativeProcessFacts>;
  const Processes& processes() const { return processes_; }
  const NativeProcessFacts* Of(uint32_t segment, uint32_t process_serial) const;
  uint64_t corrupt() const { return corrupt_; }    // invalid facts
  uint64_t left_out() const { return left_out_; }  // beyond the limits

 private:
  void TakeStacks(const Frame& frame);
  void TakeNode(const NativeNode& node, NativeProcessFacts* process);
  void TakeStatus(const Frame& frame);
  // Null: the serial is invalid, or there are too many processes.
  NativeProcessFacts* Find(uint32_t segment, uint32_t process_serial);

  Processes processes_;
  size_t nodes_ = 0;
  uint64_t corrupt_ = 0, left_out_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_NATIVE_FACTS_H_
