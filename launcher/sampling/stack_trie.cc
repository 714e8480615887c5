// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/stack_trie.h"

namespace tbprof {

uint32_t StackTrie::Find(uint32_t parent, uint32_t code, int32_t instruction) {
  const Key key = {parent, code, instruction};
  if (const auto found = nodes_.find(key); found != nodes_.end()) return found->second;
  if (full()) return 0;
  nodes_.emplace(key, ++count_);
  new_.push_back({count_, parent, code, instruction});
  return count_;
}

uint32_t FindNativeNode(const std::vector<uint64_t>& addresses, bool complete, StackTrie* trie) {
  const auto find = [trie](uint32_t parent, uint64_t address) {
    return trie->Find(parent, static_cast<uint32_t>(address >> 32),
                      static_cast<int32_t>(static_cast<uint32_t>(address)));
  };
  uint32_t node = complete ? 0 : find(0, 0);
  if (!complete && node == 0) return 0;
  for (size_t i = addresses.size(); i-- > 0;) {
    node = find(node, addresses[i] + (i == 0 ? 1 : 0));
    if (node == 0) return 0;
  }
  return node;
}

std::vector<NativeNode> TakeNewNativeNodes(StackTrie* trie) {
  std::vector<NativeNode> nodes;
  for (const PythonNode& node : trie->TakeNew()) {
    nodes.push_back({node.node, node.parent, uint64_t{node.code} << 32 | static_cast<uint32_t>(node.instruction)});
  }
  return nodes;
}

}  // namespace tbprof
