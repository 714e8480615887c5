// SPDX-License-Identifier: Apache-2.0
//
// The stacks of one process as a tree: the node of a frame is a child of its caller's node, so that one number
// identifies a stack.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_STACK_TRIE_H_
#define TBPROF_LAUNCHER_SAMPLING_STACK_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "writer/spool/spool.h"

namespace tbprof {

class StackTrie {
 public:
  // A node has 16 bytes, about 64 with the index.
  static constexpr uint32_t kMaxNodes = 1u << 20;

  explicit StackTrie(uint32_t max_nodes = kMaxNodes) : max_nodes_(max_nodes) {}

  // The node of a frame whose caller is `parent` (0: no caller). Returns 0 if the trie is full.
  uint32_t Find(uint32_t parent, uint32_t code, int32_t instruction);
  // Nodes added since the last call, parents first.
  std::vector<PythonNode> TakeNew() { return std::exchange(new_, {}); }
  size_t new_nodes() const { return new_.size(); }
  bool full() const { return count_ >= max_nodes_; }

 private:
  struct Key {
    uint32_t parent, code;
    int32_t instruction;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t hash = (static_cast<uint64_t>(key.parent) << 32 | key.code) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
      hash = (hash + static_cast<uint32_t>(key.instruction)) * 0xbf58476d1ce4e5b9u;
      return hash ^ hash >> 32;
    }
  };

  uint32_t max_nodes_;
  uint32_t count_ = 0;
  std::unordered_map<Key, uint32_t, Hash> nodes_;
  std::vector<PythonNode> new_;
};

// Adds a native stack to the trie. A node's address is one byte after the address of the instruction, as a return
// address is; the innermost address is incremented for this, so that one node can be an inner and an outer frame.
// Stacks that lack outer frames (not `complete`) are below a node with address 0. `addresses`: in the format of
// Unwinder. Returns 0 if the trie is full.
uint32_t FindNativeNode(const std::vector<uint64_t>& addresses, bool complete, StackTrie* trie);
// Native nodes added since the last call, parents first.
std::vector<NativeNode> TakeNewNativeNodes(StackTrie* trie);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_STACK_TRIE_H_
