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

}  // namespace tbprof
